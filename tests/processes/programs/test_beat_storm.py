"""Three beats for two minutes, while their leader is killed or paused and database and broker go away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("django_celery_beat")

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.servers import Server, start_broker, start_postgres
from tests.support.brokers.broker import Broker
from tests.support.ledger.databases import migrated_database
from tests.support.ledger.rows import Rows
from tests.support.waiting import eventually
from tests.support.workers.beats import STOCK, Beat, Beats, beats
from tests.support.workers.journal import Journal
from tests.support.workers.processes import pause
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]

ALIAS = "storm"
SECOND = timedelta(seconds=1)
ALL = json.dumps({"idempotent_beat": {"misfire": "all"}})


@dataclass
class Storm:
    """Everything on servers of its own."""

    database: Server
    broker: Server
    running: Beats
    site: Site
    kills: int = 0
    began: float = field(default_factory=time.monotonic)

    def at(self, second: float) -> None:
        """Let the time come: what happens to whom is a matter of the clock here."""
        time.sleep(max(self.began + second - time.monotonic(), 0))

    def kill_leader(self) -> None:
        """The leader dies, and its supervisor starts another beat."""
        leader = self.running.leader()
        if leader is not None:
            leader.kill()
            self.kills += 1
            self.running.start(1)

    def pause_leader(self) -> Beat:
        """The leader sleeps."""
        leader = self.running.wait_for_leader(within=30)
        pause(leader.process.pid)
        return leader

    def counted(self, queue: str) -> list[str]:
        """The ids of the messages in a queue that nobody reads."""
        raw: Any = self.running.broker.client.lrange(self.running.broker.prefix + queue, 0, -1)
        return [json.loads(each)["headers"]["id"] for each in raw]


@contextmanager
def surroundings(directory: Path) -> Iterator[Storm]:
    """Servers, an empty ledger, no beat yet."""
    with (
        start_postgres(durable=False) as database,
        start_broker() as server,
        migrated_database(database.url, ALIAS),
    ):
        broker = Broker(server.url, "storm:")
        environment = {
            "PROJ_IDEMPOTENT_TASKS": json.dumps({"REPUBLISH_AFTER": 15}),
            "PROJ_SWEEP_SECONDS": "1",
        }
        site = Site(directory, database.url, broker, Journal(directory), Rows(ALIAS))
        with beats(ALIAS, database.url, broker, directory, **environment) as running:
            yield Storm(database, server, running, site)
        site.close()


def grid(first: datetime, last: datetime, step: timedelta) -> list[datetime]:
    """Every nominal time."""
    return [first + number * step for number in range((last - first) // step + 1)]


def weather(storm: Storm) -> None:
    """120 seconds: the leader is killed every 15, paused for longer than its lease, and servers go away."""
    for second in (15, 30):
        storm.at(second)
        storm.kill_leader()
    storm.at(45)
    paused = storm.pause_leader()
    storm.at(65)
    paused.resume()
    storm.kill_leader()
    storm.at(75)
    storm.database.restart()
    storm.site.rows.close()
    storm.at(80)
    storm.kill_leader()
    storm.at(85)
    storm.broker.kill()
    storm.at(95)
    storm.kill_leader()
    storm.at(105)
    storm.broker.start()
    storm.at(110)
    storm.kill_leader()
    storm.at(120)


def test_three_beats_send_the_grid_each_time_once_whatever_happens(tmp_path: Path) -> None:
    with surroundings(tmp_path) as storm:
        running = storm.running
        often = running.entry("often", every=1, task="proj.plain_beaten", queue="often", headers=ALL)
        running.entry("minutely", task="proj.plain_beaten", queue="minutely")
        ours = running.entry("ours", every=1, task="proj.beaten", headers=ALL)
        options = {"PROJ_IDEMPOTENT_TASKS": running.environment["PROJ_IDEMPOTENT_TASKS"]}
        with storm.site.running("worker", "--concurrency", "2", PROJ_SWEEP_SECONDS="1", **options):
            running.start(3)
            running.wait_for_sent("often", 1)
            storm.began = time.monotonic()
            weather(storm)
            caught_up = IdempotencyKey.objects.using(ALIAS)
            running.wait_for_leader(within=60)
            eventually(
                lambda: running.cursor(often) > datetime.now(running.cursor(often).tzinfo) - 3 * SECOND,
                "up to date",
                within=60,
            )
            for beat in [beat for beat in running.beats if beat.is_alive]:
                beat.resume()
                beat.terminate()
            for beat in running.beats:
                beat.wait()
            eventually(
                lambda: not caught_up.exclude(state=State.SUCCEEDED).exists(), "all is sent", within=90
            )

        sent = running.sent("often")
        expected = grid(sent[0], running.cursor(often), SECOND)
        minutes = running.sent("minutely")
        ran = sorted(datetime.fromisoformat(entry["due"]) for entry in storm.site.journal.read("ran"))
        doubled = len(sent) - len(set(sent))
        print(
            f"{len(expected)} times, {len(sent)} messages ({doubled} doubled), {len(ran)} runs,"
            f" {storm.kills} kills"
        )
        assert storm.kills >= 4
        assert len(expected) >= 115
        assert sorted(set(sent)) == expected
        assert ran == grid(ran[0], running.cursor(ours), SECOND)
        assert minutes == grid(minutes[0], minutes[-1], timedelta(minutes=1))
        assert len(minutes) >= 2
        # A kill between a message and its note lets the sweeper send the very same message again.
        assert len(set(storm.counted("often"))) == len(expected)
        assert doubled <= 1


def test_the_same_harness_sees_that_ordinary_beats_send_what_is_due_several_times(tmp_path: Path) -> None:
    with surroundings(tmp_path) as storm:
        storm.running.entry("often", every=1, task="proj.plain_beaten", queue="often")
        storm.running.start(3, scheduler=STOCK)
        eventually(lambda: storm.counted("often"), "a message")
        storm.began = time.monotonic()
        before = len(storm.counted("often"))
        storm.at(15)
        sent = len(storm.counted("often")) - before
        print(f"ordinary: {sent} messages in 15 s")
        assert sent >= 25
