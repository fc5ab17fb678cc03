"""PostgreSQL reads dead letters by their index, as far as is asked: not all of them, to sort them."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.operations import counts
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import State

pytestmark = pytest.mark.django_db

#: Rows that stay no longer than the test, one dead letter among fifty: what a planner counts with.
FILL = f"""
INSERT INTO {IdempotencyKey._meta.db_table} (digest, due_at, created_at, finished_at, token, generation,
  lease_seconds, duplicates, state, reason, attempts, crashes, sends, in_external, task, key_text, task_id,
  category, signature)
SELECT md5('key ' || n)::uuid, now(), now(), now(), 1, 1, 60, 0, CASE WHEN n % 50 = 0 THEN 5 ELSE 7 END, 1, 1,
  0, 0, false, 'shop.tasks.charge', 'order_id=' || n, md5('call ' || n), 1,
  CASE WHEN n % 50 = 0 THEN substr(md5('error ' || n % 7), 1, 16) END
  FROM generate_series(1, 30000) AS n
"""  # noqa: S608  our own name


@pytest.fixture
def _many() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the plans are PostgreSQL's")
    with connection.cursor() as cursor:
        cursor.execute(FILL)
        cursor.execute(f"ANALYZE {IdempotencyKey._meta.db_table}")


def _plan(asked: CaptureQueriesContext) -> str:
    """How the first statement that was asked is carried out."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {asked[0]['sql']}")
        return "\n".join(row[0] for row in cursor.fetchall())


def _is_read_by_its_index(plan: str) -> bool:
    return "Index Scan using idem_key_dead_letters" in plan and "state_due" not in plan


@pytest.mark.usefixtures("_many")
def test_a_count_of_dead_letters_ends_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "CAP", 99)
    with CaptureQueriesContext(connection) as asked:
        assert counts.failed_for_good("default")["kept"] == 100
    plan = _plan(asked)
    assert _is_read_by_its_index(plan), plan


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize("selection", [Selection(), Selection(state=State.FAILED)], ids=["all", "failed"])
def test_a_bite_of_a_redrive_reads_no_more_than_it_redrives(selection: Selection) -> None:
    with CaptureQueriesContext(connection) as asked:
        assert len(selection.query("default")[:100]) == 100
    plan = _plan(asked)
    assert _is_read_by_its_index(plan), plan
