"""A week of a busy ledger, with dead letters, filled by SQL."""

from __future__ import annotations

from datetime import timedelta

from django.core.management import call_command

from benchmarks.claims.tables import FEW, QUIET, Filled, execute, fill
from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import COUNTED, DuplicateAttempt, FailedJob

#: One key in fifty failed, one in two and a half thousand is live, one in fifty thousand is in review.
FILL = """
INSERT INTO {table} (digest, due_at, open_at, created_at, started_at, finished_at, token, generation,
  lease_seconds, duplicates, state, reason, attempts, crashes, sends, in_external, task, scope,
  key_text, task_id, owner, category, signature, result, message)
SELECT md5('key ' || n)::uuid, CASE state WHEN 4 THEN NULL ELSE at + interval '7 days' END,
  CASE WHEN state IN (2, 7) THEN at + interval '7 days' END, at, at,
  CASE WHEN state > 3 THEN at END, 1, 1, 60, n %% 7, state,
  CASE state WHEN 7 THEN 1 WHEN 5 THEN 5 ELSE 0 END, 1, 0, 0, false,
  'shop.tasks.task_' || floor(100 * power((n * 7919 %% 1000) / 1000.0, 3)), 'tenant-' || n %% 500,
  'order_id=' || n, md5('call ' || n)::uuid::text,
  md5('worker') || ':4242:' || substr(md5('owner ' || n), 1, 16),
  CASE WHEN state IN (4, 5) THEN 1 + n %% 3 END,
  CASE WHEN state IN (4, 5) THEN substr(md5('error ' || n / 50 %% 20), 1, 16) END,
  CASE WHEN state IN (4, 5) THEN '{{"error": "shop.gateway.Timeout", "message": "no answer within 5 s"}}' END,
  CASE WHEN state <> 7 THEN '{{"v": 1, "args": [], "kwargs": {{"order_id": 7, "note": "'
    || repeat('x', 500) || '"}}, "options": {{}}}}' END
  FROM (SELECT n, now() - interval '7 days' * (1 - n / %(rows)s::float8) AS at,
               CASE WHEN n %% 50000 = 0 THEN 4 WHEN n %% 50 = 0 THEN 5
                    WHEN n %% 2500 = 1 THEN 1 + n %% 3 ELSE 7 END AS state
          FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n) AS numbered
"""

FAILED = f"""
INSERT INTO {FailedJob._meta.db_table} (digest, token, at, attempt, state, category, signature, task, scope,
  key_text, task_id, worker, error, description, traceback)
SELECT digest, token, finished_at, 1, state, category, signature, task, scope, key_text, task_id, 'w@host',
  'shop.gateway.Timeout', 'no answer within 5 s', repeat('File shop/tasks.py, line 7, in charge ', 50)
  FROM {{table}} WHERE signature IS NOT NULL
"""  # noqa: S608  our own names

DUPLICATES = f"""
INSERT INTO {DuplicateAttempt._meta.db_table} (digest, scope, task_id, place, reason, at, summed)
SELECT md5('key ' || n)::uuid, 'tenant-' || n %% 500, md5('duplicate ' || n)::uuid::text, 'worker',
  'in_progress', now(), true
  FROM generate_series(1, %(rows)s) AS n
"""  # noqa: S608  our own names


def make(rows: int) -> Filled:
    """Tables, rows, statistics."""
    for statement in QUIET:
        execute(FEW, statement)
    call_command("migrate", verbosity=0, run_syncdb=True)
    filled = fill(FEW, rows, FILL)
    execute(FEW, FAILED.format(table="django_idempotent_tasks_idempotencykey"))
    execute(FEW, DUPLICATES, rows=rows // 10)
    store, hour = get_store(), timedelta(hours=1)
    last = database_now(store).replace(minute=0, second=0, microsecond=0)
    for back in range(1, 169):
        store.count_hour(last - back * hour, last - (back - 1) * hour, marker=COUNTED)
    execute(FEW, "VACUUM ANALYZE")
    return filled
