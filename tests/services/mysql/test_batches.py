"""Batches on MariaDB or MySQL: the promises of their records and of their submission, one by one."""

from __future__ import annotations

import pytest

from tests.running.batches.test_bulk_records import *  # noqa: F403
from tests.running.batches.test_failing_records import *  # noqa: F403
from tests.running.batches.test_other_calls import *  # noqa: F403
from tests.running.batches.test_records import *  # noqa: F403
from tests.running.batches.test_rejected_records import *  # noqa: F403
from tests.running.batches.test_unsure_records import *  # noqa: F403
from tests.sending.test_batches import *  # noqa: F403
from tests.sending.test_batches_at_once import *  # noqa: F403
from tests.sending.test_batches_read import *  # noqa: F403
from tests.services.mysql import server
from tests.support.batches import desk, small_groups

__all__ = ["desk", "small_groups"]

pytestmark = [server.mark, pytest.mark.usefixtures("alias", "small_groups")]
