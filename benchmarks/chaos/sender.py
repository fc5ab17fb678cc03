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
from http.client import HTTPConnection, HTTPException
from typing import Any

import django
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models import F

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
#: Calls that may be under way at a time, so that senders are at it for as long as faults strike.
UNDER_WAY = 400
#: Seconds after which a plain call that the ledger does not know is sent again, and between two looks.
AGAIN, PAUSE = 15.0, 3.0
#: Answers of the web server that mean that the call is accepted.
ACCEPTED = {200, 202, 409}


class Sender:
    """Sends calls one after the other, each until it is accepted."""

    def __init__(self, prefix: str, web: int, send: Callable[[Call], None] | None = None) -> None:
        self._prefix = prefix
        self._web = web
        self._send = send or self._send_by_kind
        self._sent_at: dict[str, float] = {}

    def run(self, calls: list[Call]) -> None:
        """Send all, then those again that got lost before the ledger knew them."""
        for number, call in enumerate(calls):
            if number % 20 == 0:
                self._until_done(self._wait_for_room)
            self._until_done(lambda: self._send_once(call))  # noqa: B023  done at once
        while unknown := self._until_done(lambda: _unknown(calls)):
            for call in filter(self._is_late, unknown):
                self._until_done(lambda: self._send_again(call))  # noqa: B023  the same
            time.sleep(PAUSE)

    def _wait_for_room(self) -> None:
        """Wait while too many calls are under way; not for those that a broker has lost."""
        end = time.monotonic() + PAUSE
        while time.monotonic() < end and checker.under_way(self._prefix) > UNDER_WAY:
            time.sleep(0.1)

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
        for _ in range(1 + call.repeats):
            # The web server has a transaction of its own, for which SQLite would wait.
            with nullcontext() if call.kind is Kind.HTTP else transaction.atomic():
                self._send(call)
                _note(call)
        self._sent_at[call.name] = time.monotonic()

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


def _unknown(calls: list[Call]) -> list[Call]:
    """Plain calls that the ledger does not know: they wait in the broker, or it has lost them."""
    plain = {f"key={call.key}": call for call in calls if call.kind in PLAIN}
    known = set(IdempotencyKey.objects.filter(key_text__in=plain).values_list("key_text", flat=True))
    return [call for text, call in plain.items() if text not in known]


def main(number: str, senders: str, seed: str, setting: str, web: str) -> None:
    """Send the calls of one sender."""
    plan = make_plan(int(seed), Setting(**json.loads(setting)))
    Sender(plan.prefix, int(web)).run(
        [call for call in plan.calls if call.number % int(senders) == int(number)]
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
