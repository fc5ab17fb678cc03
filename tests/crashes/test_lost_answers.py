"""The connection is cut at one statement, before it arrives or before its answer does: it counts once."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connections

from django_idempotent_tasks.states import State
from tests.crashes.shop import completing, refusing, retrying, returning
from tests.crashes.stage import Ends, Stage
from tests.support.deliveries import ALIASES, APPS
from tests.support.network.proxy import Proxy

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


class Cutter(Proxy):
    """Cuts the first connection on which some words are sent, before they arrive or before the answer."""

    def __init__(self, port: int, words: bytes, *, arrives: bool) -> None:
        super().__init__(port)
        self._words = words
        self._arrives = arrives
        self._asked: socket.socket | None = None
        self.cuts = 0

    def _forward(self, source: socket.socket, sink: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while (data := source.recv(65536)) and not self._is_cut(source, sink, data, from_client):
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _is_cut(self, source: socket.socket, sink: socket.socket, data: bytes, from_client: bool) -> bool:
        """Whether this connection ends here: the server answers a statement when it has carried it out."""
        if from_client and self._asked is None and self._words in data:
            self._asked = sink
            is_cut = not self._arrives
        else:
            is_cut = self._arrives and source is self._asked
        self.cuts += is_cut
        return is_cut


@dataclass(frozen=True)
class Step:
    """A statement of a run."""

    name: str
    words: bytes
    task: Any
    ends: Ends
    #: With what errors its deliveries end.
    errors: tuple[str | None, ...] = (None,)

    def __str__(self) -> str:
        return self.name


DONE: Ends = {State.SUCCEEDED: 1}
CLAIM = Step("the claim", b"ON CONFLICT (digest) DO NOTHING", completing, DONE)
COMMIT = Step("the commit", b"COMMIT", completing, DONE)
RETRY = Step("the retry", b"state = 3\n WHERE", retrying, DONE, ("Retry", None))
COMPLETION = Step("the completion by return", b"state = 7\n WHERE", returning, {State.SUCCEEDED: 0})
FAILURE = Step("the failure", b"category = ", refusing, {State.FAILED: 0}, ("PermanentError",))


def work_behind(proxy: Cutter, stage: Stage) -> Callable[[], None]:
    """Work with the proxy between this process and its database."""

    def work() -> None:
        connections[stage.alias].settings_dict |= {"HOST": "127.0.0.1", "PORT": str(proxy.port)}
        stage.work()

    return work


def cut_at(step: Step, alias: str, *, arrives: bool) -> Stage:
    """Let a process work whose connection is cut once, at the step."""
    stage = Stage(alias, step.task)
    stage.call()
    port = int(connections[alias].settings_dict["PORT"])
    with Cutter(port, step.words, arrives=arrives) as proxy:
        assert stage.world.run_mortal(work_behind(proxy, stage)) == 0
    assert proxy.cuts == 1
    return stage


def errors(stage: Stage) -> tuple[str | None, ...]:
    """With what errors its deliveries ended."""
    return tuple(end["error"] for end in stage.ended)


@pytest.mark.parametrize("arrives", [True, False], ids=["answer", "statement"])
@pytest.mark.parametrize("step", [CLAIM, RETRY, COMPLETION, FAILURE], ids=str)
def test_a_lost_statement_or_answer_is_made_up_for_in_the_same_delivery(
    step: Step, arrives: bool, postgresql: str
) -> None:
    stage = cut_at(step, postgresql, arrives=arrives)
    sight = stage.look()
    assert ({sight.state: sight.effects}, errors(stage)) == (step.ends, step.errors)
    assert len(stage.world.started) == sight.attempts
    assert stage.faults(step.ends) == []


def test_a_commit_whose_answer_is_lost_is_recognised(postgresql: str) -> None:
    stage = cut_at(COMMIT, postgresql, arrives=True)
    assert (errors(stage), stage.world.completed) == ((None,), [{"key": stage.key}])
    assert stage.faults(COMMIT.ends) == []


def test_a_commit_that_does_not_arrive_is_an_error_of_the_body(postgresql: str) -> None:
    stage = cut_at(COMMIT, postgresql, arrives=False)
    assert (errors(stage), stage.world.completed) == (("OperationalError",), [])
    assert stage.faults({State.FAILED: 0}) == []
