"""Takes the steps of a leased body: each function runs once for a key's work, and its value is kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, transaction

from ..conf import settings
from ..exceptions import LeaseLost, OuterTransaction
from ..ledger.encoding import decode_result
from ..ledger.steps import check_name, encode_value

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds until a value is offered again to a database that is away, doubled each time, at most the last.
PACE, LONGEST_PACE = 0.1, 2.0


class Steps:
    """The steps of one attempt: those that it has taken, and the values that earlier attempts have kept."""

    def __init__(self, attempt: Any) -> None:
        self._attempt = attempt
        self._taken: set[str] = set()
        self._kept: dict[str, str | None] | None = None
        #: Whether this attempt may have kept the value of a step that has raised: the ledger knows.
        self._is_unsure = False
        #: The step whose function runs now; empty between two steps.
        self.running = ""

    def take(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], *, external: bool
    ) -> Any:
        """The kept value of the step, or that of its function, which is kept."""
        check_name(name)
        self._check_place(name)
        if name in (kept := self._kept_before()):
            self._taken.add(name)
            return decode_result(kept[name])
        if self._attempt.tells_lost():
            raise self._lost(name)
        self.running = name
        try:
            run = self._run_outside if external else self._run_inside
            text = run(name, lambda: function(*args, **kwargs))
        except BaseException:  # a hook of the commit raises after it, and a signal strikes anywhere
            self._kept, self._is_unsure = None, True
            raise
        finally:
            self.running = ""
        self._taken.add(name)
        return decode_result(text)

    def check_none_runs(self, verb: str) -> None:
        """Refuse what belongs between two steps."""
        if self.running:
            self._refuse(f"called {verb} inside the step {self.running!r}: call it after the step has ended.")

    def _check_place(self, name: str) -> None:
        attempt = self._attempt
        if attempt.completed:
            self._refuse(f"called step({name!r}) after complete(): its key is completed already.")
        self.check_none_runs(f"step({name!r})")
        if name in self._taken:
            self._refuse(f"called step({name!r}) twice in one attempt: give every step a name of its own.")
        if attempt.in_caller_transaction:
            return
        if attempt.ledger.store.connection.in_atomic_block or attempt.watch.is_by_hand():
            raise OuterTransaction(
                f"{attempt.task.name} called step({name!r}) inside a transaction, whose rollback would"
                " undo its value. Call it outside: a step that is not external has a transaction of its own."
            )

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(f"{self._attempt.task.name} {what}")

    def _kept_before(self) -> dict[str, str | None]:
        """What earlier attempts have kept; a key that was claimed once only has none to read."""
        if self._kept is None:
            claim = self._attempt.claim
            is_first = claim.token == 1 and not self._is_unsure
            self._kept = {} if is_first else self._attempt.ledger.store.step_values(claim)
        return self._kept

    def _run_inside(self, name: str, run: Callable[[], Any]) -> str | None:
        """The writes of the function and its value are one transaction."""
        began, committing = time.monotonic(), False
        try:
            with self._attempt.transaction(lambda: self._lost(name)):
                text = self._encoded(name, run())
                self._keep(name, text, began)
                committing = True
        except DatabaseError as error:
            # It may be the answer to COMMIT that was lost: the row knows.
            if not (committing and self._attempt.settlement.is_kept(name)):
                raise
            task = self._attempt.task.name
            logger.warning("%s: the step %r is committed; only the answer was lost (%r)", task, name, error)
            # Not always this run's: an earlier commit of this attempt may have arrived late, and before it.
            text = self._attempt.ledger.store.step_values(self._attempt.claim)[name]
        return text

    def _run_outside(self, name: str, run: Callable[[], Any]) -> str | None:
        """The function runs outside a transaction, and its value is kept as soon as there is one."""
        began = time.monotonic()
        with self._attempt.outside():
            text = self._encoded(name, run())
        deadline, pause = time.monotonic() + self._attempt.claim.lease, PACE
        while True:
            try:
                self._keep(name, text, began)
            except (OperationalError, InterfaceError):
                if self._attempt.in_caller_transaction or time.monotonic() > deadline:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PACE)
                if not self._attempt.settlement.is_kept(name):
                    continue
            return text

    def _keep(self, name: str, text: str | None, began: float) -> None:
        attempt, elapsed = self._attempt, time.monotonic() - began
        if not attempt.ledger.store.keep_step(attempt.claim, name, value=text, elapsed=elapsed):
            raise self._lost(name)

    def _encoded(self, name: str, value: object) -> str | None:
        return encode_value(self._attempt.task.name, name, value, secrets=self._attempt.settlement.secrets())

    def _lost(self, name: str) -> LeaseLost:
        label = f"{self._attempt.task.name} {self._attempt.claim.call.identity.key_text!r}"
        return LeaseLost(f"{label}: another attempt has taken over; the step {name!r} was refused.")


def run_plain(
    task: str,
    name: str,
    function: Callable[..., Any],
    args: Any,
    kwargs: Mapping[str, Any],
    *,
    external: bool,
) -> Any:
    """A step of a plain call: the same transaction and the same limits, and nothing is kept."""
    check_name(name)
    own: AbstractContextManager[Any] = transaction.atomic(using=settings().database)
    with nullcontext() if external else own:
        text = encode_value(task, name, function(*args, **kwargs))
    return decode_result(text)
