"""One sender of a chaos run: makes its share of the calls, and goes on where one that was killed stood.

``python -m benchmarks.chaos.sender NUMBER SENDERS SEED SETTING WEB``: the setting as JSON, the web server's
port. It ends when the ledger knows all of its calls.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from typing import Any

import django
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models import F

from benchmarks.chaos.pace import Pace
from benchmarks.chaos.plan import CHUNK, PLAIN, RECORDS, Call, Kind, Setting, make_plan

django.setup()

from benchmarks.chaos import checker, tasks  # noqa: E402  it needs the settings
from benchmarks.chaos.models import Change, Sent  # noqa: E402
from django_idempotent_tasks import DuplicateTask, submit_batch  # noqa: E402
from django_idempotent_tasks.models import IdempotencyKey  # noqa: E402

TASKS: dict[Kind, Any] = {
    Kind.RETURNED: tasks.returning,
    Kind.COMPLETED: tasks.completing,
    Kind.ATOMIC: tasks.committing,
    Kind.RESERVED: tasks.reserved,
    Kind.RESERVED_ATOMIC: tasks.reserved_atomically,
    Kind.STEPPED: tasks.stepping,
    Kind.RETRIED: tasks.retrying,
    Kind.REFUSED: tasks.refusing,
    Kind.FOLLOWED: tasks.following,
}
#: Kinds that are sent outside a transaction. The web server has one of its own, for which SQLite would wait.
BY_ITSELF = frozenset({Kind.HTTP, Kind.RESERVED})
#: Calls that may be under way at a time, so that senders are at it for as long as faults strike.
UNDER_WAY = 200
#: Seconds after which a plain call that the ledger does not know is sent again: more than a queue of that
#: many calls takes. And those between two looks for such calls, while others are sent and afterwards.
AGAIN, LOOK, PAUSE = 15.0, 5.0, 1.0
#: Seconds between two looks whether the faults have kept up.
PACE = 0.2
#: Answers of the web server that mean that the call is accepted.
ACCEPTED = {200, 202, 409}


class Sender:
    """Sends calls one after the other, each until it is accepted."""

    def __init__(
        self,
        prefix: str,
        web: int,
        send: Callable[[Call], None] | None = None,
        may_send: Callable[[Call], bool] = lambda _call: True,
    ) -> None:
        self._prefix = prefix
        self._web = web
        self._send = send or self._send_by_kind
        self._may_send = may_send
        #: Plain calls of this sender that the ledger did not know at the last look, by their keys' text.
        self._unknown: dict[str, Call] = {}
        self._sent_at: dict[str, float] = {}
        self._looked = 0.0

    def run(self, calls: list[Call]) -> None:
        """Send all that no earlier sender has sent, and those again that the ledger does not know in time."""
        sent = self._until_done(lambda: _sent(self._prefix))
        self._expect(*(call for call in calls if call.name in sent))
        for number, call in enumerate(call for call in calls if call.name not in sent):
            if number % 20 == 0:
                self._until_done(self._wait_for_room)
            while not self._may_send(call):
                time.sleep(PACE)
                self._until_done(self._wait_for_room)
            self._until_done(lambda: self._send_once(call))  # noqa: B023  done at once
            self._expect(call)
        while self._until_done(self._look_for_lost):
            time.sleep(PAUSE)

    def _expect(self, *calls: Call) -> None:
        self._unknown |= {f"key={call.key}": call for call in calls if call.kind in PLAIN}

    def _wait_for_room(self) -> None:
        """Wait while too many calls are under way; not for those that wait for long."""
        end = time.monotonic() + PAUSE
        while time.monotonic() < end and checker.under_way(self._prefix) > UNDER_WAY:
            time.sleep(0.4)
        if time.monotonic() - self._looked > LOOK:
            self._look_for_lost()

    def _look_for_lost(self) -> bool:
        """Send again what a broker has lost, as far as one can tell; whether any is unknown yet."""
        self._looked = time.monotonic()
        known = IdempotencyKey.objects.filter(key_text__in=self._unknown).values_list("key_text", flat=True)
        for text in known:
            self._unknown.pop(text)
        for call in filter(self._is_late, self._unknown.values()):
            self._send_again(call)
        return bool(self._unknown)

    def _until_done(self, work: Callable[[], Any]) -> Any:
        """Try again while a server, or another transaction, has the better of it."""
        while True:
            try:
                return work()
            except (DatabaseError, DuplicateTask, OSError, HTTPException) as error:
                print(f"tried again after {error!r}", flush=True)
            except Exception as error:  # noqa: BLE001  the broker's drivers have errors of many classes
                print(f"tried again after the unexpected {error!r}", flush=True)
            connection.close()
            time.sleep(0.1)

    def _send_once(self, call: Call) -> None:
        if Sent.objects.filter(name=call.name).exists():
            return
        if call.kind is Kind.RESERVED:
            self._send_and_take_back(call)
        for _ in range(1 + call.repeats):
            with nullcontext() if call.kind in BY_ITSELF else transaction.atomic():
                self._send(call)
                _note(call)
        self._sent_at[call.name] = time.monotonic()

    def _send_and_take_back(self, call: Call) -> None:
        """Send another call in a transaction that is rolled back: the checker must not find it."""
        with transaction.atomic():
            self._send(replace(call, key=f"{call.key}-undone"))
            transaction.set_rollback(True)

    def _send_again(self, call: Call) -> None:
        self._sent_at[call.name] = time.monotonic()
        self._send(call)
        _note(call)

    def _is_late(self, call: Call) -> bool:
        """Whether the ledger should know a call by now."""
        now = time.monotonic()
        return now - self._sent_at.setdefault(call.name, now) > AGAIN

    def _send_by_kind(self, call: Call) -> None:
        arguments: dict[str, Any] = {"key": call.key, "seconds": call.seconds}
        match call.kind:
            case Kind.BATCH:
                records = [f"{call.key}.{index}" for index in range(RECORDS)]
                submit_batch(
                    tasks.booking,
                    records,
                    chunk_size=CHUNK,
                    batch_key=call.key,
                    kwargs={"upload": call.key},
                    callback=tasks.booked.s(upload=call.key),
                )
            case Kind.HTTP:
                self._post(arguments)
            case Kind.FOLLOWED:
                Change.objects.create(key=call.key)
                tasks.following.delay(**arguments)
            case Kind.RETRIED:
                tasks.retrying.delay(**arguments, retries=call.retries)
            case kind:
                TASKS[kind].delay(**arguments)

    def _post(self, arguments: dict[str, Any]) -> None:
        client = HTTPConnection("127.0.0.1", self._web, timeout=10)
        try:
            client.request("POST", "/calls/", json.dumps(arguments), {"Content-Type": "application/json"})
            status = client.getresponse().status
        finally:
            client.close()
        if status not in ACCEPTED:
            raise HTTPException(f"{status} of the web server")


def _note(call: Call) -> None:
    """Note in this transaction that a call was sent."""
    if not Sent.objects.filter(name=call.name).update(times=F("times") + 1):
        Sent.objects.create(name=call.name, key=call.key)


def _sent(prefix: str) -> set[str]:
    """The names of the calls of a run that were sent."""
    return set(Sent.objects.filter(name__startswith=f"{prefix[:-1]}/").values_list("name", flat=True))


def main(number: str, senders: str, seed: str, setting: str, web: str) -> None:
    """Send the calls of one sender."""
    plan = make_plan(int(seed), Setting(**json.loads(setting)))
    pace = Pace.of_environment()
    Sender(plan.prefix, int(web), may_send=lambda call: pace.allows(call.number, plan)).run(
        [call for call in plan.calls if call.number % int(senders) == int(number)]
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
