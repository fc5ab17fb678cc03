"""The part of a store's contract that the sweeper and beat use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from ...states import State
from ..paused import Paused
from ..presence import Presence
from ..values import Due, RedriveBite, TaskTotals

#: Longer than any lease.
LONGEST = 2**31 - 1


class Upkeep(ABC):
    """What keeps the ledger going: each bite is bounded, and two at a time do no harm."""

    @abstractmethod
    def advance_redrive(self, operation: int, bite: RedriveBite) -> bool:
        """Note a bite of a running operation; False when it was stopped or another sweeper was faster."""

    @abstractmethod
    def stop_redrive(self, operation: int, *, by: str) -> bool:
        """Stop a running operation where it is; False when it had ended."""

    @abstractmethod
    def prune_redrives(self, *, keep: int, bite: int) -> int:
        """Delete at most ``bite`` redrive operations that ended more than ``keep`` ago; how many."""

    @abstractmethod
    def active_pauses(self) -> list[Paused]:
        """The pauses that are in force, the oldest first."""

    @abstractmethod
    def ended_pauses(self) -> list[Paused]:
        """Those that are over and not noted as drained, the oldest first."""

    @abstractmethod
    def park(self, digest: UUID, *, token: int, pause: int) -> bool:
        """Let a PENDING or RETRY row wait for the end of a pause; False where the pause is over.

        Also where the row has another token, or no message to send it by. Never waits for the row.
        """

    @abstractmethod
    def unpark(self, pause: Paused, *, bite: int) -> int:
        """Make at most ``bite`` rows due that wait for this pause, or at their own later time; how many."""

    @abstractmethod
    def count_held(self, pause: Paused, *, bite: int) -> int:
        """How many rows wait for this pause; ``bite`` are counted at most."""

    @abstractmethod
    def drained(self, pause: Paused) -> bool:
        """Note that nothing waits for a pause any more; False where that was noted."""

    @abstractmethod
    def prune_pauses(self, *, keep: int, bite: int) -> int:
        """Delete at most ``bite`` pauses that were drained more than ``keep`` ago; how many."""

    @abstractmethod
    def prune_failed(self, *, keep: int, bite: int) -> int:
        """Delete at most ``bite`` failed jobs older than ``keep``; how many."""

    @abstractmethod
    def count_hour(self, hour: datetime, until: datetime, *, marker: str) -> None:
        """Count by task what became of the keys made from ``hour`` until then; ``marker``: an empty row.

        A run counts where its owner ended it and it was leased; a wait where the key was reserved and its
        first attempt ended it: neither a failure nor a redrive came between.
        """

    @abstractmethod
    def totals_since(self, since: datetime, *, most: int) -> list[TaskTotals]:
        """The same of the newest ``most`` keys made since then, read now and written nowhere."""

    @abstractmethod
    def prune_hourly(self, *, keep: int, bite: int) -> int:
        """Delete at most ``bite`` hourly counts older than ``keep``; how many."""

    @abstractmethod
    def gone_cursors(self, *, entries: str, keep: int, bite: int) -> list[int]:
        """At most ``bite`` cursors of beat that were last written more than ``keep`` ago and have no entry.

        ``entries`` is the table of the periodic tasks. None where it is not in the schema of the cursors.
        """

    @abstractmethod
    def prune_cursors(self, gone: Sequence[int], *, keep: int) -> int:
        """Delete those of these cursors that nobody has written to meanwhile; how many."""

    @abstractmethod
    def note_worker(self, presence: Presence) -> None:
        """Write that a worker lives, and what it does; one that has stopped stays stopped."""

    @abstractmethod
    def worker_stopped(self, instance: str) -> None:
        """Note once that a worker has ended; nothing for one that never wrote."""

    @abstractmethod
    def prune_workers(self, *, keep: int, bite: int) -> int:
        """Delete at most ``bite`` workers that wrote nothing for more than ``keep``; how many."""

    @abstractmethod
    def sent(self, digests: Sequence[UUID], *, token: int, retention: int) -> int:
        """PENDING to SUCCEEDED for tasks that are not ours, whose messages the broker has; how many."""

    @abstractmethod
    def send_failed(self, digest: UUID, *, token: int) -> None:
        """A message of this row was not sent: the sweeper's next look is when it is due, not later."""

    @abstractmethod
    def hasten(self, digest: UUID, *, token: int) -> bool:
        """Make a PENDING or RETRY row due now whose message is out, before its time; whether it did.

        Not a row that an atomic run has locked, nor one without a message on its way. Never waits.
        """

    @abstractmethod
    def prune(self, state: State, *, bite: int) -> int:
        """Delete at most ``bite`` rows of a terminal state that are past their time; how many."""

    @abstractmethod
    def prune_answered(self, *, bite: int) -> int:
        """Delete at most ``bite`` answers of replaced calls that are past their time; how many."""

    @abstractmethod
    def prune_duplicates(self, *, keep: int, bite: int) -> int:
        """Delete at most ``bite`` summed duplicate attempts older than ``keep``; how many."""

    @abstractmethod
    def sweep(
        self, *, bite: int, republish: int, calm: int = LONGEST, until: datetime | None = None
    ) -> list[Due]:
        """Free expired leases and pick what is due to be sent, at most ``bite`` rows a state.

        ``calm``: the seconds for which the ledger has answered. A longer lease is not freed yet, since
        its owner has had less than a lease to renew it. ``until``: what is due since then waits for the
        next sweep, so that what this one gives back is not taken by it again.
        """

    @abstractmethod
    def messages(self, tokens: Mapping[UUID, int]) -> dict[UUID, str]:
        """The stored messages of these keys, where they have one and still the token that is named."""

    @abstractmethod
    def sizes(self, digests: Sequence[UUID]) -> dict[UUID, int]:
        """The octets of the stored messages of these keys, where they have one."""

    @abstractmethod
    def sum_duplicates(self, *, bite: int) -> int:
        """Add at most ``bite`` unsummed duplicate attempts to their keys; how many were added."""

    @abstractmethod
    def lead(self, name: str, *, holder: str, lease: int) -> bool:
        """Take or renew the lease on a duty; False while another holder has it."""

    @abstractmethod
    def led_for(self, name: str) -> float | None:
        """The seconds since the latest holder of a duty took it; None where nobody ever did."""

    @abstractmethod
    def resign(self, name: str, *, holder: str) -> None:
        """Give a duty up at once, if ``holder`` has it."""
