"""The part of the store's contract that is about refused duplicates: the rows that people see of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..values import Call, Entry, Refused


class Duplicates(ABC):
    """Records calls that were refused because another call has their key."""

    @abstractmethod
    def record_duplicate(self, call: Call, *, place: str, reason: str) -> None:
        """Write one ``DuplicateAttempt``; never touches the key's row."""

    @abstractmethod
    def read_noting(self, call: Call, *, place: str) -> Entry | None:
        """The row of the call's key as :meth:`read` gives it; may record in passing that the call is refused.

        Then the entry's ``is_noted`` is true: the key is completed by another call, of the same task, scope
        and payload, and its retention lasts. A store need not do this. An open transaction must have
        nothing in it but the call's own claim, which was not granted: its commit may wait for no disk.
        """

    @abstractmethod
    def read_refusing(self, call: Call, *, place: str) -> Entry | None:
        """The same for a sender, in whose open transaction there may be anything.

        Then the entry's ``is_noted`` is true where another call of the same task, scope and payload waits to
        be run and has a stored message, runs within its lease, or has completed the key within its retention.
        """

    @abstractmethod
    def refuse_at_once(self, call: Call, *, place: str, undone: bool) -> Refused | None:
        """The refusal of a call that has neither claimed nor reserved anything; may record it in passing.

        Only where another call of the same task, scope and payload has completed the key within its
        retention or, with ``undone``, has not ended. None where the call is not surely refused, and where
        the open transaction must not read before it writes: it would then see nothing of what others commit
        meanwhile, or its write could fail.
        """
