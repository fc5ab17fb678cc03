"""Atomic deliveries on MariaDB or MySQL: the promises of :mod:`tests.running.delivery`, one by one."""

from __future__ import annotations

from tests.running.connections.acts import _sound
from tests.running.connections.test_begun_by_hand import *  # noqa: F403
from tests.running.connections.test_left_open import *  # noqa: F403
from tests.running.delivery.test_after_the_commit import *  # noqa: F403
from tests.running.delivery.test_broken_transactions import *  # noqa: F403
from tests.running.delivery.test_copies import *  # noqa: F403
from tests.running.delivery.test_duplicates import *  # noqa: F403
from tests.running.delivery.test_first_calls import *  # noqa: F403
from tests.running.delivery.test_handle import *  # noqa: F403
from tests.running.delivery.test_outer_transactions import *  # noqa: F403
from tests.running.delivery.test_settled_as_a_whole import *  # noqa: F403
from tests.running.delivery.test_struck_anywhere import *  # noqa: F403
from tests.running.delivery.test_struck_anywhere import _alive
from tests.services.mysql import server

__all__ = ["_alive", "_sound"]

pytestmark = server.mark
