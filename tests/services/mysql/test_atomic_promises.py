"""Atomic deliveries on MariaDB or MySQL: the promises of :mod:`tests.transactions`, one by one."""

from __future__ import annotations

from tests.services import mysql
from tests.transactions.test_broken_transactions import *  # noqa: F403
from tests.transactions.test_copies import *  # noqa: F403
from tests.transactions.test_duplicates import *  # noqa: F403
from tests.transactions.test_endings import *  # noqa: F403
from tests.transactions.test_first_calls import *  # noqa: F403
from tests.transactions.test_handle import *  # noqa: F403
from tests.transactions.test_hooks import *  # noqa: F403
from tests.transactions.test_left_open import *  # noqa: F403
from tests.transactions.test_left_open import _sound
from tests.transactions.test_outer_transactions import *  # noqa: F403
from tests.transactions.test_signals import *  # noqa: F403
from tests.transactions.test_signals import _alive

__all__ = ["_alive", "_sound"]

pytestmark = mysql.mark
