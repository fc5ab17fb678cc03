"""Real beats: one leads, the next one takes over, and the grid has no hole and nothing twice."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("django_celery_beat")

from django_idempotent_tasks.models import BeatCursor
from tests.support.brokers.control import ping
from tests.support.waiting import eventually
from tests.support.workers.beats import OURS, STOCK, Beat, Beats, IdemBeat, ListeningBeat, beats
from tests.support.workers.processes import pause
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

QUEUE = "unread"
SECOND = timedelta(seconds=1)
LEASE = 3


@pytest.fixture
def running(own_site: Site, tmp_path: Path) -> Iterator[Beats]:
    """No beat yet; an entry of each second, whose messages nobody takes."""
    alias, url = own_site.rows.alias, own_site.database_url
    with beats(alias, url, own_site.broker, tmp_path, PROJ_BEAT_LEASE=str(LEASE)) as found:
        own_site.broker.client.delete(own_site.broker.prefix + QUEUE)
        entry = found.entry("secondly", every=1, task="proj.plain_beaten", queue=QUEUE)
        yield found
        found.close()
        entry.delete()


def is_whole(sent: list[datetime]) -> bool:
    """Each second from the first to the last, once."""
    assert sent == [sent[0] + number * SECOND for number in range(len(sent))]
    return True


def follows(running: Beats, gone: Beat, *, within: float) -> Beat:
    """Another one leads, and sends."""
    leader = running.wait_for_leader(within=within, but=gone)
    # What it has to catch up with is one transaction: paused amid that it would leave the rest to a sweeper.
    eventually(lambda: "Sent " in leader.text(), "it has caught up", within=within)
    running.wait_for_sent(QUEUE, len(running.sent(QUEUE)) + 2)
    return leader


def kill_between_two(running: Beats, leader: Beat) -> None:
    """Kill it as soon as it has sent: between a commit and its message it would leave that to a sweeper."""
    running.wait_for_sent(QUEUE, len(running.sent(QUEUE)) + 1)
    leader.kill()


def test_the_next_beat_takes_over_after_a_stop_a_kill_and_a_pause_and_the_grid_is_whole(
    running: Beats,
) -> None:
    running.start(2)
    running.wait_for_sent(QUEUE, 2)
    first = running.wait_for_leader(within=30)
    first.terminate()
    assert first.wait() == 0
    second = follows(running, first, within=5)
    running.start(2)
    kill_between_two(running, second)
    third = follows(running, second, within=LEASE + 10)
    pause(third.process.pid)
    fourth = follows(running, third, within=LEASE + 10)
    assert is_whole(running.sent(QUEUE))

    third.resume()
    sleeper = len(running.sent(QUEUE))
    running.wait_for_sent(QUEUE, sleeper + 3)
    assert is_whole(running.sent(QUEUE))
    assert running.leader() is fourth, "who was paused stands by"


@pytest.mark.slow
def test_a_beat_inside_a_worker_stands_by_as_any_other(running: Beats, own_site: Site) -> None:
    running.start(1)
    running.wait_for_sent(QUEUE, 1)
    with own_site.running("with-beat", "--concurrency", "1", "--beat", "--scheduler", OURS):
        kill_between_two(running, running.beats[0])
        count = len(running.sent(QUEUE))
        running.wait_for_sent(QUEUE, count + 3, within=40)
    assert is_whole(running.sent(QUEUE))


def test_idem_beat_sends_and_ends_at_a_signal_also_while_it_stands_by(running: Beats) -> None:
    running.start(2, kind=IdemBeat)
    running.wait_for_sent(QUEUE, 1)
    leader = running.wait_for_leader(within=30)
    for beat in sorted(running.beats, key=lambda each: each is leader):
        beat.terminate()
        assert beat.wait(within=15) == 0
        assert "another one may lead now" in beat.text()
    eventually(lambda: running.leader() is None, "nobody leads")


@pytest.mark.slow
def test_remote_control_is_answered_by_the_leader_and_by_a_standby_and_disturbs_no_sending(
    running: Beats, own_site: Site
) -> None:
    running.start(2, kind=ListeningBeat)
    running.wait_for_sent(QUEUE, 1)
    node = f"celerybeat@{socket.gethostname()}"
    for _ in range(5):
        answers = ping(own_site, node, answers=2)
        assert answers == [{node: {"ok": "pong"}}] * 2
        running.wait_for_sent(QUEUE, len(running.sent(QUEUE)) + 1)
    assert is_whole(running.sent(QUEUE))


@pytest.mark.slow
def test_an_ordinary_beat_beside_ours_is_noticed(running: Beats) -> None:
    running.start(1)
    running.wait_for_sent(QUEUE, 3)
    cursors = BeatCursor.objects.using(running.alias)
    assert not cursors.filter(stranger_at__isnull=False).exists()
    (ordinary,) = running.start(1, scheduler=STOCK)
    eventually(lambda: "Sending due task" in ordinary.text(), "it sends", within=30)
    ordinary.terminate()  # else it writes down after three minutes what it has sent
    ordinary.wait()
    eventually(lambda: cursors.filter(stranger_at__isnull=False).exists(), "it is noticed")
    running.beats[0].wait_for_log("An ordinary beat also sent")
