from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_idempotent_tasks.exceptions import ConfigurationError, InvalidKey
from django_idempotent_tasks.identity.arguments import Binder, as_sent

MARKER = object()


def plain(a: Any, b: Any = 2) -> Any:
    return locals()


def everything(a: Any, b: Any = 2, /, c: Any = MARKER, *rest: Any, d: Any, e: Any = 5, **extra: Any) -> Any:
    return locals()


def only_by_position(a: Any, b: Any = 2, /) -> Any:
    return locals()


def only_by_keyword(*, a: Any, b: Any = 2) -> Any:
    return locals()


def position_then_keyword(a: Any = (), /, *, b: Any = None) -> Any:
    return locals()


def anything(*args: Any, **kwargs: Any) -> Any:
    return locals()


def same_names_in_extra(a: Any, /, **b: Any) -> Any:
    return locals()


def nothing() -> Any:
    return locals()


def awkward_names(default_0: Any = 1, dict: Any = 2, größe: Any = 3) -> Any:  # noqa: A002, PLC2401
    return locals()


FUNCTIONS = [
    *[plain, everything, only_by_position, only_by_keyword, position_then_keyword],
    *[anything, same_names_in_extra, nothing, awkward_names],
]
NAMES = ["a", "b", "c", "d", "e", "rest", "extra", "default_0", "dict", "größe", "zz", "odd name", ""]


def outcome(call: Callable[[], Any]) -> object:
    try:
        return call()
    except TypeError as error:
        return str(error)


@settings(max_examples=300, deadline=None)
@given(
    function=st.sampled_from(FUNCTIONS),
    args=st.lists(st.integers(), max_size=5),
    kwargs=st.dictionaries(st.sampled_from(NAMES), st.integers(), max_size=4),
)
def test_binding_is_what_python_itself_does(
    function: Callable[..., Any], args: list[int], kwargs: dict[str, int]
) -> None:
    binder = Binder(function, skip_first=False)
    assert outcome(lambda: binder(args, kwargs)) == outcome(lambda: function(*args, **kwargs))


def test_positional_keyword_and_defaulted_calls_agree() -> None:
    binder = Binder(plain, skip_first=False)
    calls = [((1,), {}), ((1, 2), {}), ((1,), {"b": 2}), ((), {"b": 2, "a": 1})]
    assert [binder(args, kwargs) for args, kwargs in calls] == [{"a": 1, "b": 2}] * 4


def test_a_misfit_is_reported_under_the_function_s_name() -> None:
    def charge(self: Any, order_id: int) -> None: ...

    binder = Binder(charge, skip_first=True)
    with pytest.raises(TypeError, match=r"charge\(\) missing 1 required positional argument: 'order_id'"):
        binder((), {})
    with pytest.raises(TypeError, match=r"charge\(\) takes 1 positional argument but 2 were given"):
        binder((1, 2), {})


def test_the_parameter_that_takes_the_task_is_left_out() -> None:
    class Charge:
        def run(self, order_id: int, /, *, amount: str = "1") -> None: ...

    for function, skip_first in ((Charge.run, True), (Charge().run, False)):
        binder = Binder(function, skip_first=skip_first)
        assert binder.names == ("order_id", "amount")
        assert binder((7,), {}) == {"order_id": 7, "amount": "1"}


def test_a_function_that_takes_the_task_among_any_arguments_keeps_them() -> None:
    assert Binder(anything, skip_first=True)((1,), {"b": 2}) == {"args": (1,), "kwargs": {"b": 2}}


@pytest.mark.parametrize("function", [nothing, only_by_keyword])
def test_a_bound_task_without_a_parameter_for_the_task_is_a_configuration_error(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(
        ConfigurationError, match=r"has no parameter for the task; add `self` or drop bind=True"
    ):
        Binder(function, skip_first=True)


def test_a_callable_without_a_signature_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="cannot be read; make the task a plain function"):
        Binder(dict.fromkeys(["x"]).update, skip_first=False)


def test_names_and_any_keyword_are_told() -> None:
    binder = Binder(everything, skip_first=False)
    assert binder.names == ("a", "b", "c", "rest", "d", "e", "extra")
    assert (binder.any_keyword, binder.accepts_any_keyword) == ("extra", True)
    assert [binder.name_at(position) for position in (0, 2, 3, 9)] == ["a", "c", "rest", "rest"]
    plain_binder = Binder(plain, skip_first=False)
    assert (plain_binder.any_keyword, plain_binder.accepts_any_keyword) == (None, False)
    assert plain_binder.name_at(2) is None


def test_a_decorated_function_is_seen_through() -> None:
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert Binder(wrapper, skip_first=False)((1,), {}) == {"a": 1, "b": 2}


def test_a_partial_binds_what_is_left() -> None:
    assert Binder(functools.partial(plain, b=9), skip_first=False)((1,), {}) == {"a": 1, "b": 9}


def test_defaults_are_the_function_s_own_objects_and_never_source() -> None:
    class Trap:
        def __repr__(self) -> str:
            return "__import__('os').abort()"

    trap = Trap()

    def charge(a: Any = trap) -> None: ...

    assert Binder(charge, skip_first=False)((), {})["a"] is trap


def test_a_name_that_is_no_identifier_never_becomes_source() -> None:
    def charge(**kwargs: Any) -> None: ...

    hostile = {"a=__import__('os').abort()": 1}
    assert Binder(charge, skip_first=False)((), hostile) == {"kwargs": hostile}
    with pytest.raises(ValueError, match="not a valid parameter name"):
        inspect.Parameter("a=__import__('os').abort()", inspect.Parameter.KEYWORD_ONLY)


def test_plain_arguments_arrive_as_the_same_objects() -> None:
    args, kwargs = [1, "a", {"b": [None, 1.5]}], {"c": True}
    sent_args, sent_kwargs = as_sent(Binder(anything, skip_first=False), args, kwargs, task="t")
    assert sent_args is args
    assert sent_kwargs is kwargs


def test_other_arguments_arrive_as_json_brings_them() -> None:
    binder = Binder(anything, skip_first=False)
    native = ((1, 2), {1: Decimal("1.0")}, b"\xff", {"__type__": "bytes", "__value__": "x"})
    args, kwargs = as_sent(binder, native, {"day": True}, task="t")
    assert args == [[1, 2], {"1": Decimal("1.0")}, b"\xff", b"x"]
    assert kwargs == {"day": True}


@pytest.mark.parametrize(
    "value", [{1}, object(), [MARKER], {"a": {(1,): 2}}, {"__type__": "?", "__value__": 1}]
)
def test_what_cannot_be_sent_is_refused_with_the_argument_s_name(value: object) -> None:
    binder = Binder(everything, skip_first=False)
    for args, kwargs, name in (
        ((1, value), {}, "b"),
        ((1, 2, 3, value), {}, "rest"),
        ((1,), {"d": value}, "d"),
    ):
        with pytest.raises(
            InvalidKey, match=f"^argument '{name}' of shop.charge: the JSON serializer refuses"
        ):
            as_sent(binder, args, kwargs, task="shop.charge")


def test_keywords_that_json_cannot_write_are_refused() -> None:
    kwargs: Any = {(1, 2): 3}
    with pytest.raises(InvalidKey, match=r"^arguments of shop.charge: the JSON serializer refuses them"):
        as_sent(Binder(anything, skip_first=False), (), kwargs, task="shop.charge")
