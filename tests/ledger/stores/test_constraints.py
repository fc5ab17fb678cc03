"""A ledger that has lost a unique key or an index is named, with what restores it, before it does harm."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connections
from django.db.models import Index, UniqueConstraint

from django_idempotent_tasks.ledger import constraints
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import AnsweredCall, IdempotencyKey

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "sqlite"])

KEY, ANSWERED = IdempotencyKey._meta.db_table, AnsweredCall._meta.db_table
UNIQUE: UniqueConstraint = AnsweredCall._meta.constraints[0]  # type: ignore[assignment]
INDEX: Index = IdempotencyKey._meta.indexes[0]
ALIASES = ["default", "sqlite"]


def found(alias: str) -> list[str]:
    return [each.text.partition(" is missing")[0] for each in constraints.missing(get_store(alias))]


@contextmanager
def without(alias: str, what: UniqueConstraint | Index) -> Iterator[None]:
    """Let one of the ledger's constraints or indexes be away."""
    connection = connections[alias]
    model = AnsweredCall if isinstance(what, UniqueConstraint) else IdempotencyKey
    kind = "constraint" if isinstance(what, UniqueConstraint) else "index"
    with connection.schema_editor() as editor:
        getattr(editor, f"remove_{kind}")(model, what)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            getattr(editor, f"add_{kind}")(model, what)


@contextmanager
def said(alias: str, *statements: str) -> Iterator[None]:
    """Say the first, and at the end the others."""
    with connections[alias].cursor() as cursor:
        cursor.execute(statements[0])
        try:
            yield
        finally:
            for statement in statements[1:]:
                cursor.execute(statement)


@pytest.mark.parametrize("alias", ALIASES)
def test_a_sound_ledger_lacks_nothing(alias: str) -> None:
    assert found(alias) == []


@pytest.mark.parametrize("alias", ALIASES)
def test_a_copy_of_a_table_lacks_all_that_the_table_had_until_what_is_said_restores_it(alias: str) -> None:
    away, back = f"ALTER TABLE {ANSWERED} RENAME TO kept", f"ALTER TABLE kept RENAME TO {ANSWERED}"
    copied = f"CREATE TABLE {ANSWERED} AS SELECT * FROM kept"  # noqa: S608  a table of ours
    with said(alias, away, back), said(alias, copied, f"DROP TABLE {ANSWERED}"):
        assert found(alias) == [
            f"The primary key (id) of the table {ANSWERED}",
            f"The unique constraint idem_answered_call (task_id, digest) of the table {ANSWERED}",
            f"The index idem_answered_due (due_at) of the table {ANSWERED}",
        ]
        lacking = constraints.missing(get_store(alias))
        assert [each.is_unique for each in lacking] == [True, True, False]
        with connections[alias].cursor() as cursor:
            for each in lacking:
                command = re.search(r"(CREATE|ALTER) .*", each.remedy)
                assert command
                cursor.execute(command[0].replace("idem_answered", "idem_again"))
        assert found(alias) == []


@pytest.mark.parametrize("alias", ALIASES)
def test_an_index_that_is_gone_is_named_and_is_no_error(alias: str) -> None:
    with without(alias, INDEX):
        assert found(alias) == [f"The index idem_key_state_due (state, due_at) of the table {KEY}"]
        assert [each.is_unique for each in constraints.missing(get_store(alias))] == [False]


@pytest.mark.postgresql
class TestPostgreSQL:
    DROP, ADD = f"ALTER TABLE {KEY} DROP CONSTRAINT {KEY}_pkey", f"ALTER TABLE {KEY} ADD PRIMARY KEY (digest)"

    def test_a_primary_key_that_is_gone_is_e005_and_a_finding_of_idem_status(self) -> None:
        with said("default", self.DROP, self.ADD):
            errors = [one for one in run_checks(databases=["default"]) if str(one.id).endswith("E005")]
            restore = f'then ALTER TABLE "{KEY}" ADD PRIMARY KEY ("digest");'
            assert [str(one.hint).rpartition(", ")[2] for one in errors] == [restore]
            out = io.StringIO()
            with pytest.raises(SystemExit):
                call_command("idem", "status", stdout=out)
            assert f"The primary key (digest) of the table {KEY} is missing" in out.getvalue()
        assert not [one for one in run_checks(databases=["default"]) if str(one.id).endswith("E005")]

    def test_an_index_that_is_not_kept_up_does_not_count(self) -> None:
        mark = "UPDATE pg_index SET indisvalid = {} WHERE indexrelid = '{}'::regclass"
        pk = f"{KEY}_pkey"
        with said("default", mark.format("false", pk), mark.format("true", pk)):
            assert found("default") == [f"The primary key (digest) of the table {KEY}"]

    def test_a_unique_index_of_some_rows_is_none_of_all(self) -> None:
        partial = f"CREATE UNIQUE INDEX half ON {KEY} (digest) WHERE state = 7"
        with said("default", self.DROP, self.ADD), said("default", partial, "DROP INDEX half"):
            assert found("default") == [f"The primary key (digest) of the table {KEY}"]

    def test_nothing_is_said_before_the_last_migration(self) -> None:
        back = "UPDATE django_migrations SET app = '{}' WHERE app = '{}' AND name LIKE '0%'"
        names = ("django_idempotent_tasks", "elsewhere")
        with without("default", UNIQUE), said("default", back.format(*names[::-1]), back.format(*names)):
            assert found("default") == []
