"""The ledger of tasks in shadow mode, whose messages it never stores: Celery alone sends them again."""

from __future__ import annotations

from dataclasses import dataclass

from ..conf import settings
from ..states import Reason, State
from .ledger import Ledger
from .rules import IN_PROGRESS, Step, Verdict
from .values import Call, Entry


@dataclass(frozen=True, slots=True)
class ShadowLedger(Ledger):
    """Claims keys of which nothing is stored."""

    def judge(self, entry: Entry | None, call: Call, owner: str) -> tuple[Entry | None, Verdict]:
        """As the guard would, which has the message of a retry: no other call may claim the key meanwhile."""
        entry, verdict = Ledger.judge(self, entry, call, owner)
        if entry is not None and verdict.step is Step.OPEN and _waits_for_its_retry(entry, call):
            verdict = Verdict(Step.REFUSE, IN_PROGRESS)
        return entry, verdict


def _waits_for_its_retry(entry: Entry, call: Call) -> bool:
    """Whether another call's retry is on its way; one that is long overdue is lost: nobody sends it again."""
    is_retried = entry.state is State.RETRY and entry.reason is Reason.RETRY_ASKED
    is_other = call.task_id not in {entry.task_id, entry.runner_task_id}
    return is_retried and is_other and -(entry.opens_in or 0.0) < settings().republish_after
