"""Which statements leave something behind on their connection."""

from __future__ import annotations

import pytest
from psycopg import sql

from django_idempotent_tasks.running import altered


@pytest.mark.parametrize(
    ("statement", "lasts"),
    [
        ("SET LOCAL search_path = a", False),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", False),
        ("SET CONSTRAINTS ALL DEFERRED", False),
        ("SET STATEMENT innodb_lock_wait_timeout = 1 FOR SELECT 1", False),
        ("SELECT pg_advisory_xact_lock(7)", False),
        ("SET\n    LOCAL search_path = a", False),
        ("SELECT set_config('app.tenant', %s, true)", False),
        ("SELECT set_config('app.tenant', CAST(%s AS text), TRUE ), set_config('b', '', true)", False),
        ("SELECT set_config('app.tenant', %s, %s)", True),
        ("SELECT set_config('a', 'x', true), set_config('app.tenant', 'true', false)", True),
        ("/* app='shop' */ SET search_path = a", True),
        ("-- as the shop\nSET ROLE shop", True),
        ("SELECT 1; /* then */ SET ROLE shop", True),
        ("/* app='shop' */ SELECT 1", False),
        ("/*" + " *" * 500, False),
        ("UPDATE sample_effect SET note = 'search_path'", False),
        ("INSERT INTO sample_effect (key) VALUES (%s)", False),
        ("  set work_mem = '1GB'", True),
        ("BEGIN; SET search_path = a", True),
        (b"SET search_path = a", True),
        (sql.SQL("SET search_path = {}").format(sql.Identifier("a")), True),
        ("CREATE TEMPORARY TABLE a (b int)", True),
        ("SELECT 1 AS a INTO TEMP b", True),
        ("PRAGMA busy_timeout = 1", True),
    ],
)
def test_what_lasts_is_told_from_what_ends_by_itself(statement: object, *, lasts: bool) -> None:
    assert altered.alters(statement) is lasts
