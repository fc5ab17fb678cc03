"""Sends the messages of calls that were reserved together, in bulk after their commit.

The ledger is asked whether all calls still wait, and else for their messages, as it is where those were not
kept here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from django.db import Error as DatabaseError

from ..ledger import pauses
from ..ledger.ledger import Ledger
from ..messages.message import Message
from ..messages.mould import Cast
from ..messages.relay import relay
from .alike import AlikeReservation
from .here import is_followed, run_here, runs_here
from .listed import Listed
from .reservation import Reservation

logger = logging.getLogger("django_idempotent_tasks")

#: Characters of messages that are kept in memory until the commit, so that they need not be decoded; of one.
KEPT, SMALL = 4 * 1024 * 1024, 1000


class Bite(NamedTuple):
    """Calls whose messages are to be sent: their keys, the tokens, and what is kept of each message."""

    digests: list[str]
    tokens: list[int]
    kept: list[Cast | None]

    def by_key(self) -> dict[UUID, int]:
        """The tokens by the keys."""
        return {UUID(digest): token for digest, token in zip(self.digests, self.tokens, strict=True)}


class Outgoing:
    """The messages of one list, by the keys of their calls, as these were reserved together."""

    def __init__(self, task: Any, ledger: Ledger) -> None:
        self._task = task
        self._store = ledger.store
        self._bites: list[Bite] = []
        self._room = KEPT

    def begin(self) -> None:
        """The calls that follow are reserved together."""
        if not self._bites or self._bites[-1].digests:
            self._bites.append(Bite([], [], []))

    def take(self, each: Reservation | Listed, token: int) -> None:
        """Send the message of this call; not where it waits for its time in the ledger."""
        bite = self._bites[-1]
        if isinstance(each, Listed):
            bite.digests.append(each.hex)
            bite.kept.append(self._to_keep(each.cast))
        elif each.is_far:
            return
        else:
            bite.digests.append(each.identity.digest.hex)
            bite.kept.append(self._to_keep(each.cast) if isinstance(each, AlikeReservation) else None)
        bite.tokens.append(token)

    def _to_keep(self, cast: Cast) -> Cast | None:
        """The message, where there is room to keep it in memory until it goes out."""
        size = cast.size
        if self._room <= 0 or size > SMALL:
            return None
        self._room -= size
        return cast

    def publish(self) -> None:
        """Send the messages, for at most two seconds; the sweeper is told to send the others soon."""
        count = sum(len(bite.digests) for bite in self._bites)
        if not count:  # each call waits for its time in the ledger
            return
        try:
            sent = self._run_or_send() if runs_here() else self._sent()
            if len(sent) < count:
                self._store.sends_failed(self._unsent(sent))
        except DatabaseError as error:
            logger.warning(
                "%s: the sweeper sends some calls only after REPUBLISH_AFTER (%r)", self._task.name, error
            )

    def _sent(self) -> set[int]:
        """Send the messages, by the numbers of their calls; those that the broker has."""
        return set() if self._is_paused() else {*relay.send_many(self._task.app, self._to_send())}

    def _unsent(self, sent: set[int]) -> dict[UUID, int]:
        """The keys of the other calls, with their tokens."""
        tokens = chain.from_iterable(bite.by_key().items() for bite in self._bites)
        return dict(item for number, item in enumerate(tokens) if number not in sent)

    def _is_paused(self) -> bool:
        """Whether calls of every scope wait in the ledger; a worker leaves those of one scope there."""
        return pauses.pause_of(self._store, self._task.name, None) is not None

    def _run_or_send(self) -> set[int]:
        """``SYNC_FALLBACK``: each call is run here, as a single one; the numbers of those that were."""
        done: set[int] = set()
        for number, kept in self._to_send():
            message = kept.whole() if isinstance(kept, Cast) else kept
            if is_followed(message) and not relay.send(self._task.app, message):
                continue
            done.add(number)
            if not is_followed(message):
                self._run_one(message)
        return done

    def _run_one(self, message: Message) -> None:
        """Run a call here; what it raises, with ``task_eager_propagates``, keeps no other from running."""
        try:
            run_here(self._task, message)
        except Exception:
            logger.exception("%s (%s) failed where it was sent", self._task.name, message.options["task_id"])

    def _to_send(self) -> Iterator[tuple[int, Message | Cast]]:
        """The messages by the numbers of their calls, without those that somebody has cancelled since."""
        first = 0
        for bite in self._bites:
            kept = [each for each in bite.kept if each is not None]
            if len(kept) == len(bite.kept) and self._all_wait(bite):
                yield from enumerate(kept, first)
            else:
                yield from self._read(bite, first)
            first += len(bite.kept)

    def _all_wait(self, bite: Bite) -> bool:
        if any(bite.tokens):
            return self._store.all_wait(bite.by_key())
        return self._store.all_new_wait(bite.digests)

    def _read(self, bite: Bite, first: int) -> Iterator[tuple[int, Message | Cast]]:
        tokens = bite.by_key()
        texts = self._store.messages(tokens)
        for number, (digest, kept) in enumerate(zip(tokens, bite.kept, strict=True), first):
            text = texts.pop(digest, None)
            if text is not None:
                yield number, kept or Message.decode(self._task.name, text)
