"""The part of a store's contract that people use: what they decide about a key as they have seen it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from uuid import UUID

from ...states import Reason


class Deciding(ABC):
    """Each verb changes nothing, and says False, when the row has moved on from ``token``."""

    @abstractmethod
    def redrive(self, digest: UUID, *, token: int, message: str, waits: bool = True) -> bool:
        """FAILED or REVIEW to PENDING, to be sent now as ``message``: same call, attempts and crashes from 0.

        Not ``waits``: False at once where another transaction has the row.
        """

    @abstractmethod
    def discard(self, digest: UUID, *, token: int, retention: int) -> bool:
        """Put a dead letter away: FAILED, open to a later call, pruned in its time."""

    @abstractmethod
    def resolve(
        self, digest: UUID, *, token: int, result: str | None, reason: Reason, retention: int, window: int
    ) -> bool:
        """FAILED or REVIEW to SUCCEEDED, with a result that a person gives."""

    @abstractmethod
    def release(self, digest: UUID, *, token: int) -> bool:
        """RUNNING to RETRY, due now, for an operator; REVIEW where the holder is inside ``external()``."""

    @abstractmethod
    def retry_now(self, digest: UUID, *, token: int) -> bool:
        """RETRY that waits to RETRY that is due now: the sweeper sends the stored message, whatever was sent.

        False also where the row's message is not stored, since nothing could be sent.
        """
