"""Arguments that JSON would change are refused where a call is written, and such results are not stored."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from django_idempotent_tasks import InvalidKey, dead_letter
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


LOSSY = [{1: "a", "1": "b"}, {True: 1, "true": 2}, {None: 1, "null": 2}, [{"deep": ({1.0: 1, "1.0": 2},)}]]


def doors(till: Till, shop: Counter) -> list[Any]:
    """All that accept a call's arguments and keep them."""
    task = till.seller(shop, reserve=True)
    return [task.apply_async, task.submit, partial(dead_letter, task)]


def test_an_argument_of_which_json_would_drop_a_key_is_refused_where_it_is_written(
    till: Till, shop: Counter
) -> None:
    for send in doors(till, shop):
        for note in LOSSY:
            with pytest.raises(InvalidKey, match=r"argument 'note' of .*: two keys of a dict in it become"):
                send((7,), {"note": note})
    assert (shop.state, till.sent) == (None, [])


def test_arguments_that_are_no_list_are_refused_before_they_are_looked_at(till: Till, shop: Counter) -> None:
    for send in doors(till, shop):
        for args in (iter([7]), (order for order in [7]), {7}, {7: 1}.keys(), "7"):
            with pytest.raises(TypeError, match=r"args of .* must be a list or a tuple, not"):
                send(args)
        with pytest.raises(TypeError, match=r"kwargs of .* must be a mapping, not"):
            send((), [("order", 7)])
    assert (shop.state, till.sent) == (None, [])


def test_arguments_that_are_run_here_may_come_from_an_iterator_as_in_celery(
    till: Till, shop: Counter
) -> None:
    task = till.seller(shop)
    assert task.apply(iter([7]), idempotency_key="evt-1").get() == {"order": 7}
    assert task.apply(iter([8])).get() == {"order": 8}


def test_a_result_of_which_json_would_drop_a_key_is_not_stored(till: Till, shop: Counter) -> None:
    @till.guarded()
    def sell(self: Any, order: int) -> Any:  # noqa: ARG001
        return {1: "a", "1": "b"}

    till.deliver(sell, 7)
    assert shop.row.result is None
