"""Some thousand rows in every table, so that a planner has a reason to choose an index."""

from __future__ import annotations

from django.db import connections

from django_idempotent_tasks.models import IdempotencyKey

#: How each vendor makes a digest of a number.
DIGESTS = {"postgresql": "lpad(n::text, 32, '0')::uuid", "sqlite": "printf('%032d', n)"}

NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 5000)"

#: One row in fifty is live, and none is due.
KEYS = """
INSERT INTO django_idempotent_tasks_idempotencykey (digest, due_at, open_at, created_at, token, generation,
       lease_seconds, duplicates, state, reason, attempts, crashes, sends, in_external, task, key_text,
       task_id)
{numbers}
SELECT {digest}, '2100-01-01 00:00:00', '2100-01-01 00:00:00', '2020-01-01 00:00:00', 1, 1, 60, 0,
       CASE WHEN n % 50 = 0 THEN 1 + n % 3 ELSE 7 END, 0, 1, 0, 0, {false}, 'shop.charge', n, 'T' || n
  FROM numbers
"""

DUPLICATES = """
INSERT INTO django_idempotent_tasks_duplicateattempt (digest, task_id, place, reason, at, summed)
{numbers} SELECT {digest}, 'D' || n, 'worker', 'in_progress', '2020-01-01 00:00:00', {true} FROM numbers
"""

ANSWERED = """
INSERT INTO django_idempotent_tasks_answeredcall (digest, task_id, generation, state, reason, due_at)
{numbers} SELECT {digest}, 'P' || n, 1, 7, 1, '2100-01-01 00:00:00' FROM numbers
"""

FAILED = """
INSERT INTO django_idempotent_tasks_failedjob (digest, token, at, attempt, state, category, signature, task,
       key_text, task_id, worker, error, description, traceback)
{numbers} SELECT {digest}, 1, '2100-01-01 00:00:00', 1, 5, 1, 'S' || n, 'shop.charge', n, 'T' || n, 'w', 'E',
       '', '' FROM numbers
"""

LEADERS = """
INSERT INTO django_idempotent_tasks_leader (name, holder, token, since, expires_at)
{numbers} SELECT 'L' || n, 'H' || n, 1, '2020-01-01 00:00:00', '2020-01-01 00:00:00' FROM numbers
"""

STEPS = """
INSERT INTO django_idempotent_tasks_step (digest, generation, name, token, attempt, started_at, finished_at)
{numbers} SELECT {digest}, 1, 'S' || n, 1, 1, '2020-01-01 00:00:00', '2020-01-01 00:00:00' FROM numbers
"""

BATCHES = """
INSERT INTO django_idempotent_tasks_batch (id, created_at, state, revision, task, key_text, chunk_size,
       records, chunks)
{numbers}
SELECT {digest}, '2020-01-01 00:00:00', CASE WHEN n % 50 = 0 THEN 2 ELSE 4 END, 1, 'shop.register', n, 3, 3, 1
  FROM numbers
"""

CHUNKS = """
INSERT INTO django_idempotent_tasks_batchchunk (batch_id, place, digest, task_id, first, size, fingerprint,
       token, state, outcomes)
{numbers}
SELECT {digest}, n % 5, {digest}, 'T' || n, 0, 3, {digest}, 0, CASE WHEN n % 50 = 0 THEN 1 ELSE 2 END, 'ooo'
  FROM numbers
"""

RECORDS = """
INSERT INTO django_idempotent_tasks_batchrecord (batch_id, record_index, place, category, attempt, at, error,
       description, signature)
{numbers} SELECT {digest}, n, 0, 1, 1, '2020-01-01 00:00:00', 'E', '', 'S' || n FROM numbers
"""

HOURLY = """
INSERT INTO django_idempotent_tasks_hourlycount (hour, task, created, succeeded, failed, duplicates, crashes)
{numbers} SELECT '2100-01-01 00:00:00', 'T' || n, 1, 1, 0, 0, 0 FROM numbers
"""

TABLES = (KEYS, DUPLICATES, ANSWERED, FAILED, LEADERS, STEPS, BATCHES, CHUNKS, RECORDS, HOURLY)


def fill(alias: str) -> None:
    """Fill the tables, and let the database take its statistics."""
    connection = connections[alias]
    digest = DIGESTS[connection.vendor]
    with connection.cursor() as cursor:
        for rows in TABLES:
            cursor.execute(rows.format(numbers=NUMBERS, digest=digest, true="true", false="false"))
        cursor.execute("ANALYZE")


def read_from_end_to_end(alias: str) -> None:
    """Run a query that no index serves."""
    list(IdempotencyKey.objects.using(alias).filter(key_text="7"))
