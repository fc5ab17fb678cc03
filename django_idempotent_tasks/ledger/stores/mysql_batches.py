"""Batches on MariaDB and MySQL: a SELECT locks the keys first, since an UPDATE with a subquery locks none."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError

from ..batch_values import Chunk, NewBatch
from ..values import Claim
from .batch_ends import IDS_OF_PART
from .batches import ADD, OPEN, OWNER, Batches
from .chunk_states import MOVE_THESE, PAGE, SAME, Change
from .mysql_locked import LockedWrites
from .reading import Parameters

ADD_ALONE = ADD.partition("ON CONFLICT")[0].replace(" WHERE true", "")
HOLD_ALONE = "UPDATE {chunk} SET token = %(token)s WHERE digest = %(digest)s"
# Without the hint a short table would be scanned, and a scan stops at each row that somebody has locked.
LOCK_SAME = SAME.replace("{key} k", "{key} k FORCE INDEX (PRIMARY)")
MOVE_BY_KEY = MOVE_THESE.replace("{chunk} SET", "{chunk} FORCE INDEX (idem_chunk_digest) SET")

# Without the hint the server reads all chunks before the place, and throws them away.
OPEN_ON, PAGE_ON = (
    text.replace("{chunk} WHERE", "{chunk} FORCE INDEX (idem_chunk_state) WHERE") for text in (OPEN, PAGE)
)


class MysqlBatches(Batches, LockedWrites):
    """Adds batches."""

    insert, open_page, page = ADD_ALONE, OPEN_ON, PAGE_ON

    def add_batch(self, new: NewBatch) -> bool:
        try:
            with self.together():  # the error undoes the statement and nothing that came before
                return super().add_batch(new)
        except IntegrityError:
            return False

    def hold_chunk(self, claim: Claim) -> Chunk | None:
        with self._in_transaction():
            if not self._rows(OWNER, self._of_claim(claim)):
                return None
            self._count(HOLD_ALONE, self._of_claim(claim))
            return self.chunk_of(claim.digest)

    def _move_chunks(self, change: Change, digests: list[UUID]) -> int:
        if change.token is None:
            return super()._move_chunks(change, digests)
        names, listed = self._digests(digests)
        select = self.dialect.sql(LOCK_SAME).replace("DIGESTS", names)
        with self._in_transaction():
            same = sorted(self._locked(select, listed | {"token": change.token}))
            if not same:
                return 0
            names, listed = self._digests(same)
            states = {"seen": int(change.seen), "to": int(change.to)}
            return self._count(self.dialect.sql(MOVE_BY_KEY).replace("DIGESTS", names), listed | states)

    def _prune_part(self, part: str, parameters: Parameters) -> int:
        """A DELETE with a subquery would read the whole table, and wait for each row that is locked."""
        return self._delete(part, "id", self._column(IDS_OF_PART.replace("PART", part), parameters))
