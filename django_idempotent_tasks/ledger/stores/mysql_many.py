"""Reserves many calls on MariaDB and MySQL, and tells its own new rows by a name that they bear meanwhile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from uuid import UUID, uuid4

from django.db import OperationalError

from ..reservable import Reservable
from . import claiming, statements
from . import mysql_statements as words
from .many_sql import INSERT, ROWS, SENDS_FAILED, Many, bites, in_order
from .mysql_locked import LockedWrites
from .reading import Parameters

_NAMED = claiming.RESERVED.replace(" NULL, CAST(", " %(owner)s, CAST(")

# Without the hint a short table would be scanned, and a scan stops at each row that somebody has locked.
_THESE = "FROM {key} FORCE INDEX (PRIMARY) WHERE digest IN (DIGESTS)"
THERE = f"SELECT digest {_THESE}"
LOCK_MANY = f"{THERE} FOR UPDATE NOWAIT"
MINE = f"{THERE} AND owner = %(owner)s"
UNNAME = "UPDATE {key} FORCE INDEX (PRIMARY) SET owner = NULL WHERE digest IN (DIGESTS) AND owner = %(owner)s"
LATE = f"{THERE} AND token = %(token)s AND {statements.UNCLAIMED} FOR UPDATE SKIP LOCKED"
HURRY = SENDS_FAILED.replace("UPDATE {key} SET", "UPDATE {key} FORCE INDEX (PRIMARY) SET")


class MysqlMany(Many, LockedWrites):
    """Adds what is done with many calls at once."""

    hurry = HURRY

    @abstractmethod
    def _look(self, parameters: Parameters) -> bool | None: ...

    @abstractmethod
    def _write(self, statement: str, parameters: Parameters) -> int: ...

    @abstractmethod
    def _is_harmless(self, error: OperationalError) -> bool: ...

    def reserve_many(self, wanted: Sequence[Reservable]) -> set[UUID]:
        written: set[UUID] = set()
        for bite in bites(in_order(wanted), ROWS):
            there = self._there(THERE, bite)
            rest = [each for each in bite if UUID(each.hex) not in there]
            free, is_first_held = self._free(rest)
            written |= self._reserve_bite(free) if free else set()
            if is_first_held:
                break
        return written

    def _reserve_bite(self, free: list[Reservable]) -> set[UUID]:
        owner = f"reserved:{uuid4().hex}"
        rows = [self._wanted_parameters(each) | {"owner": owner} for each in free]
        insert, values = self._inserting(INSERT, f"({_NAMED})", f" {words.ON_DUPLICATE}", rows)
        if not self._write(insert, values):
            return set()
        digests = [UUID(each.hex) for each in free]
        found = self._listing(self.dialect.sql(MINE), digests, {"owner": owner})
        mine = [UUID(str(digest)) for (digest,) in found]
        if mine:
            names, listed = self._digests(mine)
            self._count(self.dialect.sql(UNNAME).replace("DIGESTS", names), listed | {"owner": owner})
        return set(mine)

    def _free(self, rest: list[Reservable]) -> tuple[list[Reservable], bool]:
        """Those that have no row, up to the first that another transaction has; whether one has."""
        try:
            there = self._there(LOCK_MANY, rest)
        except OperationalError as error:
            if not self._is_harmless(error):
                raise
            return self._free_alone(rest)
        return [each for each in rest if UUID(each.hex) not in there], False

    def _free_alone(self, rest: list[Reservable]) -> tuple[list[Reservable], bool]:
        free: list[Reservable] = []
        for each in rest:
            is_there = self._look(self._wanted_parameters(each))
            if is_there is None:
                return free, True
            if not is_there:
                free.append(each)
        return free, False

    def _there(self, template: str, bite: list[Reservable]) -> set[UUID]:
        if not bite:
            return set()
        found = self._listing(self.dialect.sql(template), [UUID(each.hex) for each in bite], {})
        return {UUID(str(digest)) for (digest,) in found}

    def _hurry(self, digests: list[UUID], token: int) -> None:
        with self._in_transaction():
            late = self._listing(self.dialect.sql(LATE), digests, {"token": token})
            if late:
                super()._hurry([UUID(str(digest)) for (digest,) in late], token)
