"""``IdempotentTasks``: runs reserved calls in a project's tests, and lets deaths, copies and time happen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

from celery.result import EagerResult

from ..exceptions import IdempotencyError
from ..identity.rules import UNSET
from ..ledger import following, orphans
from ..ledger.failures import failure_of
from ..ledger.ledger import Ledger
from ..ledger.owner import new_owner
from ..ledger.rules import Step
from ..ledger.stores import get_store
from ..ledger.stores.clock import shifted
from ..ledger.values import Claim, Claimed
from ..messages.header import HEADER
from ..messages.message import AGAIN, Message
from ..messages.relay import relay
from ..operations.tasks import known_task
from ..sending.here import run_here
from ..sending.reservation import Reservation
from ..states import Category
from .calls import ReservedCall, ledger_call, matching, names_of, waiting

#: Calls that one ``drain()`` runs at most: a task that reserves its own next call would never end.
MOST = 1000

#: Follow-ups that one look gives their keys.
_BITE = 100


class WorkerDied(IdempotencyError):
    """The recorded error of an attempt that ``crash()`` has ended."""


class IdempotentTasks:
    """What a project's test does with reserved calls; the fixture ``idempotent_tasks`` of the pytest plugin.

    While it is open no message of a reserved call leaves this process, and calls run where the test says
    so: eagerly, in the test's own transaction if there is one. It needs the test's database, and no broker.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._sent: dict[str, ReservedCall] = {}
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._replace(relay, "send", lambda _app, _message: True)
        self._replace(relay, "post", lambda _app, _message: None)
        self._replace(relay, "send_many", lambda _app, messages: (name for name, _message in messages))
        self._replace(Reservation, "submit", self._noting(Reservation.submit))
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    # -- what was reserved --

    def reserved(self, task: Any = None) -> list[ReservedCall]:
        """The calls that are accepted and unfinished, of one task or of all, the oldest first."""
        found = waiting(self._sent)
        self._sent |= {call.task_id: call for call in found if call.task_id not in self._sent}
        return [call for call in found if task is None or call.task == task.name]

    def assert_reserved(self, task: Any, /, **arguments: Any) -> ReservedCall:
        """The oldest call of ``task`` in this test in which these parameters have these values.

        Calls that have run meanwhile count, those that a rollback took back do not. Raises AssertionError
        without one, which names the calls that there are.
        """
        self.reserved()
        calls = [call for call in self._sent.values() if call.row is not None]
        found = next(matching(calls, task, arguments), None)
        if found is None:
            wanted = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            msg = f"{task.name}({wanted}) was not reserved. Reserved: {names_of(calls)}."
            raise AssertionError(msg)
        return found

    # -- what happens to it --

    def drain(self) -> list[EagerResult[Any]]:
        """Run the calls that may run now, oldest first, and those that they reserve, until none is left.

        A call whose time lies ahead waits for :meth:`advance`. What a body raises is in its result. Raises
        AssertionError after 1,000 calls.
        """
        results: list[EagerResult[Any]] = []
        tried: dict[str, int] = {}
        while call := self._next(tried):
            if len(results) >= MOST:
                msg = f"drain() has run {MOST} calls and is not at an end: {call} reserves more and more."
                raise AssertionError(msg)
            results.append(run_here(self._task(call.task), call.message))
        return results

    def redeliver(self, call: Any) -> EagerResult[Any]:
        """Deliver a call's message once more, as a broker may at any time; what that delivery got."""
        found = self._found(call)
        header = (found.message.options.get("headers") or {}).get(HEADER) or {}
        return self._run(found.message.with_header({**header, AGAIN: True}))

    def crash(self, call: Any) -> None:
        """Let a worker begin an attempt of a waiting call and die; the next sees ``previous_attempt_died``.

        After several deaths of a call the next attempt waits for :meth:`advance`, and after ``max_crashes``
        the key fails, as with workers.
        """
        claim = self._claimed_elsewhere(call)
        failure = failure_of(WorkerDied("crash()"), task=claim.call.task, category=Category.RETRYABLE)
        orphans.free_crashed(get_store(), claim.call, owner=claim.owner, failure=failure)

    def lose_lease(self, call: Any) -> None:
        """Let another process take a call and fall silent until its lease is over, which moves the clock.

        For a call that waits: the next attempt takes over. Inside the body of a call, for that call: the
        other process has taken over, and this attempt can no longer complete.
        """
        row = self._row(call)
        is_running = row.owner is not None
        if is_running:
            self.advance(row.lease_seconds + 1)
        claim = self._claimed_elsewhere(call)
        if not is_running:
            self.advance(claim.lease + 1)

    def advance(self, seconds: float) -> None:
        """Let time pass for the ledger: ETAs, retries, leases and retention. Python's own clock stays."""
        self._stack.enter_context(shifted(int(seconds)))

    # -- within --

    def _next(self, tried: dict[str, int]) -> ReservedCall | None:
        """The next call to run; none that a run has left as it was, which would never end."""
        following.promote_all(get_store(), bite=_BITE)
        self.reserved()
        for call in waiting(self._sent, due=True):
            row = call.row
            if row is not None and tried.get(call.task_id) != row.token:
                tried[call.task_id] = row.token
                return call
        return None

    def _run(self, message: Message) -> EagerResult[Any]:
        result: EagerResult[Any] = run_here(self._task(message.task), message)
        return result

    def _claimed_elsewhere(self, call: Any) -> Claim:
        row = self._row(call)
        policy = self._task(row.task).idempotency_policy
        outcome = Ledger(get_store(), policy).claim(ledger_call(row), owner=new_owner(), first=Step.WAIT)
        if not isinstance(outcome, Claimed):
            state = row.get_state_display()
            msg = f"{row.task} ({row.task_id}) is {state} and cannot be claimed now: {outcome}."
            raise AssertionError(msg)  # noqa: TRY004  of a test
        return outcome.claim

    def _row(self, call: Any) -> Any:
        row = self._found(call).row
        if row is None:
            msg = f"{call} has no row in the ledger: it was rolled back, or a later call has its key."
            raise AssertionError(msg)
        return row

    def _found(self, call: Any) -> ReservedCall:
        """The call that is given, or that of a result, of a submission or of a task id."""
        if isinstance(call, ReservedCall):
            return call
        named = getattr(call, "result", None) if hasattr(call, "created") else call
        task_id = str(getattr(named, "id", named))
        self.reserved()
        if task_id not in self._sent:
            msg = f"{call!r} was not reserved in this test."
            raise AssertionError(msg)
        return self._sent[task_id]

    def _task(self, name: str) -> Any:
        task = self._tasks.get(name) or known_task(name)
        if task is None:
            msg = f"No task of the name {name} is known here."
            raise AssertionError(msg)
        return task

    def _noting(self, submit: Callable[[Reservation], Any]) -> Callable[[Reservation], Any]:
        """Reserve as ever, and keep the message as its row has it, which forgets it at the end."""

        def noted(reservation: Reservation) -> Any:
            self._tasks[reservation.task.name] = reservation.task
            submission = submit(reservation)
            if submission.created:
                message = Message.decode(reservation.call.task, reservation.call.message or "")
                self._sent[reservation.task_id] = ReservedCall.of(message)
            return submission

        return noted

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until this is closed."""
        before = vars(owner).get(name, UNSET)
        setattr(owner, name, value)
        undo = delattr if before is UNSET else setattr
        self._stack.callback(undo, owner, name, *([] if before is UNSET else [before]))
