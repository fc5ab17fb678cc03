"""PgBouncer dies, and server connections behind it: nothing is lost, nothing is done twice, nothing stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connections

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.states import State
from example_project.servers import Server
from tests.sample import tasks
from tests.support.ledger.backends import OTHERS, terminate
from tests.support.waiting import eventually
from tests.support.workers.kinds import effects, keys_of, kill_at_its_gate, reached, send, wait_until_done
from tests.support.workers.reserving import sending_to
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]

TASKS, STRIKES = 120, 12
KEPT = {
    "PROJ_IDEMPOTENT_TASKS": '{"KEEP_CONNECTIONS": true}',
    "PROJ_CONN_MAX_AGE": "600",
    "PROJ_RESULT_BACKEND": "disabled://",
}

Strike = Callable[[Site, Server, str], None]


def kill_the_child(site: Site, _pooler: Server, key: str) -> None:
    """As the kernel does when memory is short."""
    kill_at_its_gate(site, key)


def kill_the_pooler(site: Site, pooler: Server, key: str) -> None:
    """End it with all its connections, and start it again."""
    reached(site, key)
    pooler.kill()
    pooler.restart()
    forget_connections(site)
    site.journal.open(f"{key}.1")


def cut_behind_the_pooler(site: Site, _pooler: Server, key: str) -> None:
    """End every connection that the pooler has to the server."""
    reached(site, key)
    terminate(OTHERS, alias="direct")
    forget_connections(site)
    site.journal.open(f"{key}.1")


def forget_connections(site: Site) -> None:
    """This process's own, which was cut too."""
    connections[site.rows.alias].close()


STRIKES_IN_TURN: tuple[Strike, ...] = (kill_the_child, kill_the_pooler, cut_behind_the_pooler)


def test_what_was_called_is_done_once_while_poolers_servers_and_children_die(
    frail: Site, pooler: Server
) -> None:
    workers = [frail.worker(name, "--concurrency", "2", **KEPT).launch() for name in ("first", "second")]
    for worker in workers:
        worker.wait_until_ready()
    keys = keys_of(TASKS)
    struck = keys[:: TASKS // STRIKES - 1][:STRIKES]  # an odd step: every kind in its turn
    with sending_to(frail):
        for key in keys:
            send(frail, key, waits=key in struck)
            if key in struck:
                STRIKES_IN_TURN[struck.index(key) % 3](frail, pooler, key)
        wait_until_done(frail, keys)
    assert effects(frail) == dict.fromkeys(keys, 1)
    assert all(worker.is_alive for worker in workers)
    frail.broker.wait_until_empty()


def test_the_limits_of_a_side_connection_hold_behind_it_and_are_left_to_nobody(frail: Site) -> None:
    alias = frail.rows.alias
    for _ in range(4):
        with get_store(alias).side_connection() as side, side.connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('statement_timeout'), current_setting('lock_timeout')")
            assert cursor.fetchone() == ("2s", "2s")
    seen = set()
    for _ in range(8):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT current_setting('statement_timeout'), current_setting('lock_timeout')")
            seen.add(cursor.fetchone())
    assert seen == {("0", "0")}


def test_a_heartbeat_keeps_the_lease_of_a_body_behind_it(frail: Site) -> None:
    with frail.running("beating", "--concurrency", "1", **KEPT):
        frail.send(tasks.renewed, "beats")  # returns once its lease was renewed
        row = frail.rows.wait_for("beats", State.SUCCEEDED)
    assert (row.attempts, row.token) == (1, 1)


def test_no_lock_of_a_session_is_left_behind_it(frail: Site) -> None:
    keys = keys_of(8)
    with frail.running("locks", "--concurrency", "2", **KEPT), sending_to(frail):
        for key in keys:
            send(frail, key, waits=False)
        wait_until_done(frail, keys)

        def none() -> bool:
            with connections["direct"].cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database ="
                    " (SELECT oid FROM pg_database WHERE datname = current_database())"
                )
                return bool(cursor.fetchone()[0] == 0)

        eventually(none, "no advisory lock is held")
