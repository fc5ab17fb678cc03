"""The part of a store's contract that senders of many calls use: one statement for up to 1,000 calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from uuid import UUID

from ..reservable import Reservable
from ..values import Call, Entry


class ManyCalls(ABC):
    """The verbs of single calls, for many at once."""

    @abstractmethod
    def reserve_many(self, wanted: Sequence[Reservable]) -> set[UUID]:
        """Write PENDING rows in the open transaction, as ``reserve_new``, and return the keys written.

        Each call has a key of its own; a key that has a row is left as it is. The keys are taken in the
        order of their digests, up to the first that another open transaction holds, for whose end the store
        waits a moment at most. So of two senders of the same keys one waits, and holds no key that the
        other still wants.
        """

    def left_of_many(self, wanted: Sequence[Reservable]) -> set[str]:
        """Reserve as :meth:`reserve_many`; the digests of those that it has left, in hexadecimal digits."""
        written = self.reserve_many(wanted)
        return {each.hex for each in wanted if UUID(each.hex) not in written}

    @abstractmethod
    def read_many(self, calls: Sequence[Call]) -> list[Entry | None]:
        """The row of each call's key, as ``read``; several calls may have one key."""

    @abstractmethod
    def record_duplicates(self, refused: Sequence[tuple[Call, str]], *, place: str) -> None:
        """Write one ``DuplicateAttempt`` for each call, with its reason; never touches the keys' rows."""

    @abstractmethod
    def all_wait(self, tokens: Mapping[UUID, int]) -> bool:
        """Whether each of these rows still has its token, and a message that is to be sent."""

    def all_new_wait(self, digests: Sequence[str]) -> bool:
        """:meth:`all_wait` for rows that were just reserved, by their digests in hexadecimal digits."""
        return self.all_wait({UUID(digest): 0 for digest in digests})

    @abstractmethod
    def sends_failed(self, tokens: Mapping[UUID, int]) -> None:
        """Make these rows due, as ``send_failed`` does with one, where they still have their token."""
