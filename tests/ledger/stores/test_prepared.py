"""PostgreSQL keeps the plans of the usual statements; where it does not, calls go on with whole ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, ProgrammingError, connection, transaction
from django.test import override_settings

from django_idempotent_tasks.ledger.stores import get_store, prepared
from django_idempotent_tasks.ledger.stores.carried import END
from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.bench import RETENTION, WINDOW
from tests.ledger.stores.verbs import KEY, Ledgers
from tests.support.ledger.crowd import DIGESTS, KEYS, NUMBERS, fill
from tests.support.ledger.statements import said

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


@pytest.fixture(autouse=True)
def _own_connection(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: ARG001
    """A connection that has prepared nothing, and does so at the second time."""
    monkeypatch.setattr(prepared, "OFTEN", 2)
    connection.close()
    yield
    connection.close()


def kept() -> set[str]:
    """The names that this connection's server knows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements WHERE from_sql")
        return {name for (name,) in cursor.fetchall()}


@contextmanager
def lost() -> Iterator[None]:
    """Wait for the error that says what was lost."""
    error = ""
    try:
        yield
    except OperationalError as raised:
        error = str(raised)
    assert "PREPARED_STATEMENTS" in error


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


class TestPrepared(Ledgers):
    """Claims and completions on a connection that stays open."""

    def one(self) -> Claim:
        """A call from its claim to its end."""
        claim = self.claimed()
        assert self.complete(claim)
        return claim

    def test_a_connection_says_a_statement_once_and_names_it_from_then_on(self) -> None:
        self.one()
        assert kept() == set()
        self.one()
        assert len(names := kept()) == 2
        statements = said("default", lambda _: self.one())
        assert [statement.split("(")[0].split()[0] for statement in statements] == ["EXECUTE", "EXECUTE"]
        assert {statement.split()[1].split("(")[0] for statement in statements} == names

    def test_the_server_takes_each_of_the_usual_statements(self) -> None:
        store: Any = get_store("default")
        for template in prepared.USUAL:
            form = prepared.form_of(store.dialect.sql(template))
            assert not re.search(r"%\(", form.prepare), form.prepare
            with connection.cursor() as cursor:
                cursor.execute(form.prepare, {})
        assert len(kept()) == len(prepared.USUAL)

    def test_a_plan_that_serves_any_parameter_reads_by_the_key_or_the_task_id(self) -> None:
        fill("default")
        run("SET plan_cache_mode = force_generic_plan")
        run("SET enable_seqscan = off")  # what is read whole then has no index to be read by
        store: Any = get_store("default")
        for template in prepared.USUAL:
            form = prepared.form_of(store.dialect.sql(template))
            with connection.cursor() as cursor:
                cursor.execute(form.prepare, {})
            plan = explained(re.sub(r"%\(\w+\)s", "NULL", form.execute).removesuffix(END))
            assert "Seq Scan" not in plan, plan
            assert "idem_key_state" not in plan, plan

    @pytest.mark.parametrize("command", ["DEALLOCATE ALL", "DISCARD ALL"])
    def test_calls_go_on_where_somebody_has_taken_the_statements_away(self, command: str) -> None:
        self.one(), self.one()
        run(command)
        claims = [self.one() for _ in range(4)]
        assert kept() == set(), "this connection keeps no more"
        digests = [claim.digest for claim in claims]
        assert set(IdempotencyKey.objects.filter(digest__in=digests).values_list("state", flat=True)) == {
            State.SUCCEEDED
        }

    def test_a_transaction_that_has_begun_is_told_whole_statements(self) -> None:
        """A name that is gone would undo what was written in it, as a sender's own rows."""
        self.one(), self.one()
        with transaction.atomic():
            assert not any("EXECUTE" in one for one in said("default", lambda _: self.one())[1:])
            run("DEALLOCATE ALL")
            self.one()

    def test_what_comes_with_the_commit_is_taken_back_where_its_name_is_gone(self) -> None:
        for _ in range(3):
            assert self.complete_with_commit(claim := self.claimed())
        claim = self.claimed()
        assert len(kept()) == 2
        with lost():
            self.complete_with_commit(claim, "DEALLOCATE ALL")
        assert IdempotencyKey.objects.get(digest=claim.digest).state == State.RUNNING
        assert self.complete_with_commit(claim)

    def complete_with_commit(self, claim: Claim, sql: str = "SELECT 1") -> bool:
        """Complete as the last statement of a task's own transaction."""
        store = get_store("default")
        with store.carrying(claim, AssertionError), transaction.atomic():
            run(sql)
            how: dict[str, Any] = {"reason": Reason.DONE, "retention": RETENTION, "window": WINDOW}
            return store.complete(claim, result=None, **how)  # counts as done until the COMMIT

    def test_an_altered_table_is_planned_anew(self) -> None:
        self.one(), self.one()
        run(f"ALTER TABLE {KEY} ADD COLUMN later integer")
        try:
            self.one()
        finally:
            run(f"ALTER TABLE {KEY} DROP COLUMN later")
        self.one()

    def test_no_plan_outlives_the_size_of_its_table_by_much(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A small table is read whole: by the plan of then a large one would be, at each completion."""
        run(f"ALTER TABLE {KEY} SET (autovacuum_enabled = off)")  # which would have all plans made anew
        try:
            run(f"TRUNCATE {KEY}")  # deleted rows leave their pages behind
            claim = self.one()
            run(f"ANALYZE {KEY}")
            run("SET plan_cache_mode = force_generic_plan")
            *_, completion = said("default", lambda _: self.complete(self.claimed()))
            assert completion.startswith("EXECUTE")
            assert "Seq Scan" in explained(completion)
            run(KEYS.format(numbers=NUMBERS, digest=DIGESTS["postgresql"], false="false"))
            assert "Seq Scan" in explained(completion), "it is kept"
            monkeypatch.setattr(prepared, "PLANNED", 0)
            assert not self.complete(claim)
            assert "Seq Scan" not in explained(completion)
        finally:
            run(f"ALTER TABLE {KEY} RESET (autovacuum_enabled)")

    def test_a_side_connection_prepares_nothing(self) -> None:
        with get_store("default").side_connection() as aside:
            for _ in range(3):
                claim = self.claimed()
                aside.complete(claim, result=None, reason=Reason.DONE, retention=RETENTION, window=WINDOW)
            with aside.connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_prepared_statements")
                assert cursor.fetchone() == (0,)

    def test_what_cannot_be_prepared_is_sent_whole(self) -> None:
        self.one()
        run(f"ALTER TABLE {KEY} RENAME TO elsewhere")
        try:
            with pytest.raises(ProgrammingError, match="migrate"):
                self.claimed()
        finally:
            run(f"ALTER TABLE elsewhere RENAME TO {KEY}")
        self.one(), self.one()
        assert kept() == set()

    @pytest.mark.parametrize(
        "given",
        [
            {"DISABLE_SERVER_SIDE_CURSORS": True},
            {"OPTIONS": {"pool": True}},
            {"OPTIONS": {"prepare_threshold": 5}},
            {},
        ],
        ids=["a pooler is behind it", "it comes from a pool", "psycopg prepares", "the setting is off"],
    )
    def test_nothing_is_prepared_where_another_may_take_it_away(self, given: dict[str, Any]) -> None:
        before = dict(connection.settings_dict)
        options = {**before["OPTIONS"], **given.get("OPTIONS", {})}
        connection.close()
        connection.settings_dict.update({**given, "OPTIONS": options})
        try:
            with override_settings(IDEMPOTENT_TASKS={"PREPARED_STATEMENTS": bool(given)}):
                for _ in range(3):
                    self.one()
                assert kept() == set()
        finally:
            connection.close()
            getattr(connection, "close_pool", bool)()
            connection.settings_dict.clear()
            connection.settings_dict.update(before)

    def test_a_connection_that_only_passes_on_to_the_drivers_is_told_whole_statements(self) -> None:
        """As a library may put around each: it may have neither a hash nor room for a weak reference."""
        self.one()
        raw: Any = connection.connection
        connection.connection = Passing(raw)  # as such a library does
        try:
            self.one(), self.one()
        finally:
            connection.connection = raw
        assert kept() == set()


def explained(execution: str) -> str:
    """The plan by which a prepared statement would be run now."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {execution}")
        return "\n".join(line for (line,) in cursor.fetchall())


class Passing:
    """Something around a connection of the driver."""

    __slots__ = ("_raw",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, raw: Any) -> None:
        object.__setattr__(self, "_raw", raw)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._raw, name, value)

    def __eq__(self, other: object) -> bool:
        return bool(self._raw == other)
