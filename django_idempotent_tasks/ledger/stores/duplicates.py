"""The part of the store's contract that is about refused duplicates: the rows that people see of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..values import Call, Entry


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
    def may_look_first(self) -> bool:
        """Whether a sender may read a key's row before it writes it.

        Not in an open transaction that would then see nothing of what others commit before the write, or
        whose write could fail because it has read first.
        """
