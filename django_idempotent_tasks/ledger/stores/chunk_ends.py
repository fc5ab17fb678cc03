"""On PostgreSQL, sends the end of a chunk in one message with the question whether its batch is to end."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.db import Error as DatabaseError

from ..values import Claim
from .batch_ends import LOOK
from .batches import Batches
from .chunk_states import end_of
from .connection import binds_here, is_open
from .reading import Row
from .session import Session

#: The look comes after the commit: of chunks that end at a time the last one to commit sees them all ended.
END_AND_LOOK = "BEGIN; {}; COMMIT; {}"


class ChunkEnds(Batches):
    """Adds the message that a chunk's end and the look at its batch share."""

    def end_chunk(self, claim: Claim, batch: UUID) -> bool | None:
        if is_open(self.connection) or self.session() is not Session.IDLE or not binds_here(self.connection):
            return super().end_chunk(claim, batch)
        ended, row = self._end_and_look(claim, batch)
        return self._is_to_settle(row) if ended else None

    def _end_and_look(self, claim: Claim, batch: UUID) -> tuple[int, Row | None]:
        move, parameters = self._moving(end_of(claim), [claim.digest])
        both = END_AND_LOOK.format(move.strip(), self.dialect.sql(LOOK).strip())
        with self.connection.cursor() as cursor:
            try:
                cursor.execute(both, parameters | self._batch(batch))
            except DatabaseError:
                with suppress(DatabaseError):
                    self.connection.rollback()  # the BEGIN is none of Django's
                raise
            cursor.nextset()
            ended = int(cursor.rowcount)
            cursor.nextset()
            cursor.nextset()
            row: Row | None = cursor.fetchone()
        return ended, row
