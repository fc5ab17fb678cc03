"""Many chords under many deaths: each body is told the right values, and its effect is there once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from celery import chord

from django_idempotent_tasks.states import State
from tests.processes.canvas import tasks
from tests.processes.canvas.conftest import place_of, running
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker, kill
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]

CHORDS = 200
PARTS = 5
KILLS = 30


@contextmanager
def killing(worker: Worker) -> Iterator[list[int]]:
    """Kill children of the worker, one at a time; gives those that were killed."""
    killed: list[int] = []
    stop = Event()

    def run() -> None:
        while len(killed) < KILLS and not stop.wait(0.3):
            if children := worker.children():
                killed.append(random.choice(children))
                kill(killed[-1])

    thread = Thread(target=run)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("mode", tasks.MODES)
@pytest.mark.parametrize("name", ["redis", "database"])
def test_two_hundred_chords_end_with_their_sums_under_thirty_kills(site: Site, name: str, mode: str) -> None:
    with place_of(site, f"{name}_{mode}") as place, running(place, name) as worker:
        keys = {f"chord{number}": [f"{number}-{part}" for part in range(PARTS)] for number in range(CHORDS)}
        with killing(worker) as killed:
            for key, parts in keys.items():
                header = [tasks.slow_part[mode].si(part) for part in parts]
                place.send(tasks.start, chord(header, tasks.collect[mode].s(key=key)))

            def ended() -> set[str]:
                return {entry["key"] for entry in place.journal.read("collected")}

            eventually(lambda: len(ended()) == CHORDS, f"{CHORDS} ends", within=240, every=0.5)
            place.broker.wait_until_empty(within=60)
        assert len(killed) == KILLS
        told = {entry["key"]: entry["values"] for entry in place.journal.read("collected")}
        assert told == keys
        for key, parts in keys.items():
            assert [len(place.rows.effects(each)) for each in (key, *parts)] == [1] * (PARTS + 1)


def test_a_chord_ends_though_the_host_of_its_part_died(site: Site) -> None:
    with place_of(site, "host_death") as place:
        with running(place, "redis", PROJ_VISIBILITY_TIMEOUT="10") as worker:
            header = [tasks.gated["leased"].si("gated"), tasks.part["leased"].si("part")]
            place.send(tasks.start, chord(header, tasks.collect["leased"].s(key="end")))
            place.journal.wait_for("gated", "gated")
            worker.kill()
        with running(place, "redis", PROJ_VISIBILITY_TIMEOUT="10"):
            place.journal.wait_for("gated", "gated", count=2, within=60)
            place.journal.open("gated")
            assert place.journal.wait_for("collected", "end", within=60)["values"] == ["gated", "part"]
            place.rows.wait_for("end", State.SUCCEEDED)
        assert [len(place.rows.effects(key)) for key in ("gated", "part", "end")] == [1, 1, 1]
