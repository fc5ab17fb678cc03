"""What a worker's parent does for every message, which it only passes on: next to nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from billiard.einfo import ExceptionInfo
from billiard.exceptions import Terminated
from celery.signals import task_received
from celery.worker.request import Request
from celery.worker.state import revoked, revoked_stamps

from django_idempotent_tasks.messages.canary import NAME
from django_idempotent_tasks.messages.header import HEADER, to_header
from django_idempotent_tasks.messages.turns import REDRIVEN
from django_idempotent_tasks.worker import canary
from django_idempotent_tasks.worker.parent import ParentHook
from tests.sample.celery import app
from tests.sample.death import acting

CALL = "a call in the parent"


class Header(dict[str, Any]):
    """An identity's header that notes whether somebody reads it."""

    is_read = False

    def get(self, *args: Any) -> Any:
        self.is_read = True
        return super().get(*args)


class Hooked(ParentHook, Request):
    """A request as a worker's parent makes it."""


def arrived(stamps: Any = None, **marks: Any) -> tuple[Hooked, Header]:
    """A message of a guarded task as the parent has it, and its header."""
    identity = acting.idempotency_identity(("key", []), task_id=CALL)
    header = Header(to_header(identity, task_name=acting.name, task_id=CALL) | marks)
    stamped = {"stamped_headers": list(stamps or {}), "stamps": stamps or {}}
    headers = {"task": acting.name, "id": CALL, HEADER: header, **stamped}
    message = SimpleNamespace(
        headers=headers,
        body=b"",
        payload=((), {}, {}),
        content_type="",
        content_encoding="",
        delivery_info={},
        properties={},
    )
    return Hooked(message, app=app, task=acting), header


@pytest.fixture
def remembered() -> Iterator[None]:
    """The worker remembers that the call was revoked."""
    revoked.add(CALL)
    yield
    revoked.discard(CALL)


def test_a_call_that_nobody_has_revoked_is_passed_on_unread() -> None:
    request, header = arrived(**{REDRIVEN: 2})
    assert not request.revoked()
    assert not header.is_read


@pytest.mark.usefixtures("remembered")
def test_a_call_that_was_redriven_since_its_revoke_is_passed_on() -> None:
    request, header = arrived(**{REDRIVEN: 2})
    assert not request.revoked()
    assert header.is_read
    assert CALL not in revoked


@pytest.mark.usefixtures("remembered")
def test_a_revoked_call_that_nobody_has_redriven_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    request, _ = arrived()
    announced: list[Any] = []
    monkeypatch.setattr(request, "_announce_revoked", lambda *args: announced.append(args))
    assert request.revoked()
    assert len(announced) == 1


@pytest.mark.parametrize("by", ["id", "stamp", "stamps"])
def test_a_terminated_call_whose_end_celery_could_not_announce_at_once_is_still_revoked(
    monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """As where the result backend was down when somebody revoked it."""
    request, _ = arrived({"tenant": "acme"})
    announced: list[Any] = []
    monkeypatch.setattr(request, "_announce_revoked", lambda *args: announced.append(args))
    monkeypatch.setattr(request, "reject", lambda **how: announced.append(how))
    if by == "id":
        monkeypatch.setattr(request, "id", "revoked")
        revoked.add("revoked")
    else:
        monkeypatch.setitem(revoked_stamps, "tenant", "acme" if by == "stamp" else ["other", "acme"])
    with pytest.raises(Terminated) as caught:
        raise Terminated(15)
    request.on_failure(ExceptionInfo((caught.type, caught.value, caught.tb)))
    revoked.discard("revoked")
    assert announced == [("terminated", True, "15", False)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """What the canary's clock shows; nobody has asked yet, and nothing that was counted stays."""
    clock = [1_000_000.0]
    monkeypatch.setattr(canary, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(canary, "_asked_at", 0.0)
    monkeypatch.setattr(canary, "_received", Counter())
    yield clock
    task_received.disconnect(dispatch_uid=canary._UID)


def receive(exchange: Any, key: Any, *, name: str = acting.name) -> None:
    """Announce a message as Celery does when a worker gets it."""
    info = {"exchange": exchange, "routing_key": key}
    task_received.send(sender=Worker(app), request=SimpleNamespace(name=name, delivery_info=info))


@dataclass(eq=False)
class Worker:
    """A consumer, which Celery's signals take for the sender."""

    app: Any


def test_nobody_is_told_of_messages_unless_a_probe_asks(clock: list[float]) -> None:
    assert not task_received.receivers
    canary.count_received()
    receive("", "celery")
    clock[0] += 50
    canary.count_received()
    clock[0] += 50
    receive("", "celery")
    assert canary._received == {"celery": 2}
    clock[0] += 50
    receive("", "celery")
    assert not task_received.receivers


@pytest.mark.usefixtures("clock")
def test_messages_are_counted_by_their_queues() -> None:
    canary.count_received()
    home = app.amqp.queues["celery"]
    receive("", "celery")
    receive(home.exchange.name, home.routing_key)
    receive("celery_delayed_27", f"{'.'.join(f'{90:028b}')}.{home.routing_key}")
    receive("somebody's exchange", "a key")
    receive("", "celery", name=NAME)
    assert canary._received == {"celery": 3, "": 1}


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("place", [(["forged"], "key"), ("", {"forged": 1}), (None, None)])
def test_a_message_from_a_forged_place_is_counted(place: tuple[Any, Any]) -> None:
    canary.count_received()
    receive(*place)
    assert sum(canary._received.values()) == 1
