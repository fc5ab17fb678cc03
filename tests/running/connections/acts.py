"""How a body leaves a transaction open, or a caller begins one by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connections, transaction

from tests.support.deliveries import ALIASES

Act = Callable[[str], object]


def begin(alias: str) -> None:
    """Say BEGIN in a cursor, of which Django knows nothing."""
    with connections[alias].cursor() as cursor:
        cursor.execute("BEGIN")


def switch_autocommit_off(alias: str) -> None:
    """Take the commits over from Django."""
    connections[alias].set_autocommit(False)


def enter_a_block(alias: str) -> None:
    """Begin an ``atomic()`` block, as if a signal had struck where it ends."""
    transaction.atomic(using=alias).__enter__()


each_act = pytest.mark.parametrize(
    "act", [begin, switch_autocommit_off, enter_a_block], ids=lambda act: act.__name__
)
by_hand = pytest.mark.parametrize("act", [begin, switch_autocommit_off], ids=lambda act: act.__name__)


@pytest.fixture(autouse=True)
def _sound(alias: str) -> Iterator[None]:
    """Leave no connection of a test to the next one."""
    yield
    for each in {alias, *ALIASES} & {*connections}:
        connections[each].close()
        if connections[each].in_atomic_block:
            connections[each].connect()
