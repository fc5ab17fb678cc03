"""Calls that mean the same have one digest, and others have another."""

from __future__ import annotations

import copy
import gc
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from kombu.utils.json import dumps, loads

from django_idempotent_tasks.exceptions import ConfigurationError, InvalidKey
from django_idempotent_tasks.identity.rules import ALL_ARGUMENTS, DEFAULT, TASK_ID, UNSET
from tests.identity.calls import charge, identity, open_ended, sweep


def test_positional_keyword_and_defaulted_calls_agree() -> None:
    first = identity(charge, (7,)).digest
    assert first == identity(charge, (7, "9.90")).digest
    assert first == identity(charge, (), {"order_id": 7}).digest
    assert first == identity(charge, (7.0,), {"currency": "EUR", "amount": "9.90"}).digest


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (
            (UUID(int=1), (Decimal("1.0"), b"\xff", "\ud800\0", {1: date(2024, 1, 2)})),
            {"currency": datetime(2024, 1, 2, tzinfo=UTC)},
        ),
        (("\ud83d\ude00", ["\ud83d\ude00"]), {"currency": {"\ud83d\ude00": 1}}),
    ],
    ids=["types that JSON has not", "surrogate pairs"],
)
def test_the_caller_and_the_worker_agree(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    arrived_args, arrived_kwargs = loads(dumps([args, kwargs]))
    for key in (
        ALL_ARGUMENTS,
        "amount",
        ("order_id", "currency"),
        lambda *args, **kwargs: repr([args, kwargs]),
    ):
        assert identity(charge, args, kwargs, key=key) == identity(
            charge, arrived_args, arrived_kwargs, key=key
        )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("1", "23"), ("12", "3")),
        (("ab",), ("a", "b")),
        (("1",), (1,)),
        ((True,), (1,)),
        ((None,), ("None",)),
        ((None,), ()),
        (([],), ({},)),
        (({"a": 1},), ([["a", 1]],)),
        (([1, 23],), ([12, 3],)),
        ((UUID(int=1),), (UUID(int=1).hex,)),
        (("key",), ("Key",)),
        (("key",), ("key ",)),
        (("x" * 5000 + "1",), ("x" * 5000 + "2",)),
    ],
)
def test_different_calls_have_different_digests(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    def task(a: Any = 0, b: Any = 0) -> None: ...

    for options in ({}, {"key": ("a", "b")}, {"key": lambda *args: args}):
        digests = {identity(task, args, **options).digest for args in (one, other)}
        assert len(digests) == 2


def test_only_the_named_arguments_count() -> None:
    assert identity(charge, (7, "1"), key="order_id") == identity(charge, (7, "2"), key="order_id")
    assert identity(charge, (7,), key="order_id").digest != identity(charge, (8,), key="order_id").digest
    names = ("order_id", "currency")
    assert identity(charge, (7, "1"), key=names).digest == identity(charge, (7, "2"), key=names).digest
    names = ("order_id", "amount")
    assert identity(charge, ("1", "2"), key=names).digest != identity(charge, ("2", "1"), key=names).digest


def test_the_task_name_and_the_scope_are_part_of_the_digest() -> None:
    scopes = [{}, {"scope": ""}, {"scope": "None"}, {"scope": "null"}, {"scope": "7"}]
    digests = {identity(charge, (7,), task=task, call=call).digest for task in ("a", "b") for call in scopes}
    assert len(digests) == 10
    assert identity(charge, (7,), call={"scope": None}) == identity(charge, (7,))


def test_a_task_without_arguments_has_one_key_per_scope() -> None:
    for key in (ALL_ARGUMENTS, ()):
        assert identity(sweep, key=key) == identity(sweep, key=key, task_id="id-2")
        assert identity(sweep, key=key).digest != identity(sweep, key=key, call={"scope": "t"}).digest
    assert identity(charge, (7,), key=()).digest == identity(charge, (8,), key=()).digest


def test_the_task_id_as_key_knows_only_redeliveries() -> None:
    first = identity(charge, (7,), key=TASK_ID)
    assert first == identity(charge, (8,), key=TASK_ID)
    assert first.digest != identity(charge, (7,), key=TASK_ID, task_id="id-2").digest
    for value in ("id-1", {"!task_id": "id-1"}, ["id-1"]):
        assert identity(charge, (7,), key=TASK_ID).digest != identity(charge, (value,), key="order_id").digest


@pytest.mark.parametrize("options", [{"call": {"idempotency_key": TASK_ID}}, {"key": lambda *_args: TASK_ID}])
def test_the_task_id_constant_never_passes_for_a_value(options: dict[str, Any]) -> None:
    assert identity(charge, (7,), **options).digest == identity(charge, (7,), key=TASK_ID).digest
    with pytest.raises(InvalidKey, match=r"Constant has no canonical form"):
        identity(charge, (7,), call={"idempotency_key": [TASK_ID]})


def test_a_key_per_call_replaces_the_task_s_own() -> None:
    for key in (ALL_ARGUMENTS, "amount", TASK_ID, lambda *_args: 1 / 0):
        found = identity(charge, (7,), key=key, call={"idempotency_key": "evt_1"}, fingerprint=None)
        assert found == identity(charge, (8,), key=(), call={"idempotency_key": "evt_1"}, fingerprint=None)
    assert found.digest != identity(charge, (7,), call={"idempotency_key": "evt_2"}).digest


@pytest.mark.parametrize("value", [None, "", {"order": object()}, float("nan")])
def test_an_empty_or_formless_key_per_call_is_refused(value: object) -> None:
    with pytest.raises(InvalidKey, match=r"^idempotency_key of shop.charge[:,]"):
        identity(charge, (7,), call={"idempotency_key": value})


def test_a_key_function_is_called_once_with_what_arrives() -> None:
    seen = []

    def key(*args: Any, **kwargs: Any) -> str:
        seen.append((args, kwargs))
        return "k"

    assert identity(charge, ((1, 2),), {"currency": {1: 2}}, key=key).key_text == "key=k"
    assert seen == [(([1, 2],), {"currency": {"1": 2}})]


async def asynchronous(*_args: Any) -> str:
    return "k"


@pytest.mark.parametrize("option", ["key", "scope", "fingerprint"])
def test_a_function_that_raises_or_is_asynchronous_is_refused(option: str) -> None:
    with pytest.raises(InvalidKey, match=f"^{option} function of shop.charge: it raised ZeroDiv") as refusal:
        identity(charge, (0,), **{option: lambda order_id: 1 / order_id})
    assert isinstance(refusal.value.__cause__, ZeroDivisionError)
    with pytest.raises(InvalidKey, match="it is asynchronous"):
        identity(charge, (7,), **{option: asynchronous})
    gc.collect()  # a coroutine left open would warn here, and warnings are errors


@pytest.mark.parametrize("option", ["key", "fingerprint"])
@pytest.mark.parametrize("result", [None, ""])
def test_a_function_that_returns_nothing_is_refused(option: str, result: object) -> None:
    with pytest.raises(InvalidKey, match=f"^{option} function of shop.charge: it is empty"):
        identity(charge, (7,), **{option: lambda *_args: result})


def test_a_keyword_that_is_missing_is_not_none() -> None:
    values: list[dict[str, Any]] = [
        {},
        {"b": None},
        {"b": "(missing)"},
        {"b": {"!missing": True}},
        {"b": False},
    ]
    for key in ("b", ("b",)):
        assert len({identity(open_ended, (), kwargs, key=key).digest for kwargs in values}) == 5
    assert (
        identity(open_ended, (), {"b": 1}, key="b").digest
        == identity(open_ended, (9,), {"b": 1}, key="b").digest
    )


def test_collected_arguments_do_not_mix_with_named_ones() -> None:
    calls: list[tuple[Any, Any]] = [
        *[((), {"a": 1}), ((1, 2), {}), ((1,), {"b": 2}), ((1,), {"rest": [2]})],
        *[((1,), {"extra": {"b": 2}}), ((1, {"b": 2}), {}), ((1, 2), {"b": 2})],
    ]
    assert len({identity(open_ended, args, kwargs).digest for args, kwargs in calls}) == len(calls)


def test_an_argument_without_a_form_is_named() -> None:
    with pytest.raises(InvalidKey, match=r"^argument 'order_id' of shop.charge: NaN"):
        identity(charge, (float("nan"),), key="order_id")
    with pytest.raises(InvalidKey, match=r"^arguments of shop.charge, at amount\.items\[1\]: NaN"):
        identity(charge, (1, {"items": [0, float("inf")]}))
    with pytest.raises(
        InvalidKey, match=r"^argument 'amount' of shop.charge: the JSON serializer refuses this set"
    ):
        identity(charge, (1, {2}), key="order_id")
    with pytest.raises(InvalidKey, match=r"^argument 'amount' of shop.charge: two keys of a dict"):
        identity(charge, (Decimal(1), {"\ud83d\ude00": 1, "😀": 2}), key="order_id")
    assert identity(charge, (1, float("nan")), key="order_id").key_text == "order_id=1"


def test_arguments_that_do_not_fit_are_python_s_type_error() -> None:
    with pytest.raises(TypeError, match=r"charge\(\) missing 1 required positional argument: 'order_id'"):
        identity(charge, (), key=TASK_ID)


def test_an_option_that_names_no_argument_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"shop.charge has no argument 'order'"):
        identity(charge, (7,), key="order")


def test_the_fingerprint_is_of_all_arguments_when_the_key_is_given_per_call() -> None:
    stated = {"call": {"idempotency_key": "evt"}}
    one, other = (identity(charge, (order,), **stated) for order in (7, 8))
    assert one.digest == other.digest
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint == identity(charge, (7.0, "9.90"), **stated).fingerprint
    assert identity(charge, (7,)).fingerprint is None
    assert identity(charge, (7,), key="order_id", fingerprint=DEFAULT).fingerprint is None


def test_the_fingerprint_follows_its_option() -> None:
    for fingerprint in ("amount", ("amount",), lambda _order, amount: amount):
        one, same, other = (
            identity(charge, args, key="order_id", fingerprint=fingerprint).fingerprint
            for args in ((7, "1"), (8, "1"), (7, "2"))
        )
        assert one == same != other
    assert identity(charge, (7,), fingerprint=None, call={"idempotency_key": "evt"}).fingerprint is None


def test_constants_are_themselves_after_copy_and_pickle() -> None:
    for constant in (TASK_ID, ALL_ARGUMENTS, DEFAULT, UNSET):
        assert copy.deepcopy(constant) is constant
        assert pickle.loads(pickle.dumps(constant)) is constant  # noqa: S301
    assert repr(TASK_ID) == "TASK_ID"
