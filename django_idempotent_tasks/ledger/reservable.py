"""Names what a store reads of a call that is to be reserved; a list needs no objects for the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from .values import Call


class Reservable(Protocol):
    """A call that is to be reserved: sent again ``republish`` seconds after its time, ``wait`` from now.

    ``sends`` is 0, or -1 when no message goes out for it now. ``hex`` is its key's digest in hexadecimal
    digits: a text is hashed and compared without Python's code.
    """

    @property
    def call(self) -> Call:
        """The whole call."""

    @property
    def wait(self) -> int: ...

    @property
    def republish(self) -> int: ...

    @property
    def sends(self) -> int: ...

    @property
    def hex(self) -> str: ...

    @property
    def task(self) -> str: ...

    @property
    def scope(self) -> str | None: ...

    @property
    def key_text(self) -> str: ...

    @property
    def task_id(self) -> str: ...

    @property
    def fingerprint(self) -> UUID | None: ...

    @property
    def message(self) -> str | None: ...


class OfCall:
    """The parts of a :class:`Reservable` that a call has."""

    __slots__ = ()

    call: Call

    @property
    def hex(self) -> str:
        """The digest of the key, in hexadecimal digits."""
        return self.call.identity.digest.hex

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.call.task

    @property
    def scope(self) -> str | None:
        """The scope of the key."""
        return self.call.identity.scope

    @property
    def key_text(self) -> str:
        """The key's text for people."""
        return self.call.identity.key_text

    @property
    def task_id(self) -> str:
        """The id of the call."""
        return self.call.task_id

    @property
    def fingerprint(self) -> UUID | None:
        """What is compared of the arguments."""
        return self.call.identity.fingerprint

    @property
    def message(self) -> str | None:
        """The text of the message."""
        return self.call.message
