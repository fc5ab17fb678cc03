"""On MariaDB or MySQL: what a task says to its session ends with the task."""

from __future__ import annotations

import pytest

from tests.running.connections.test_session_ends_with_its_task import (
    MYSQL,
    each_kind,
    session_ends_with_its_task,
)
from tests.services.mysql.server import mark
from tests.support.till import Counter, Till

pytestmark = [mark, pytest.mark.usefixtures("watching")]


@each_kind
@pytest.mark.parametrize("what", MYSQL)
def test_what_is_said_to_a_session_ends_with_the_task(
    till: Till, shop: Counter, what: str, *, guarded: bool
) -> None:
    session_ends_with_its_task(till, shop, MYSQL[what], guarded=guarded)
