"""Recognises the errors by which a database says that it stopped a statement for taking too long."""

from __future__ import annotations

from collections.abc import Iterator

#: PostgreSQL's code of a cancelled statement; of MariaDB and MySQL the driver's for an answer that has not
#: come in time, and the servers' for a statement above its time.
_TOO_LONG = frozenset({"57014", 2013, 1969, 3024})


def took_too_long(error: BaseException) -> bool:
    """Whether a smaller bite may do, also where the rollback after it has failed with the connection."""
    return any(_code(each) in _TOO_LONG for each in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _code(error: BaseException) -> object:
    return getattr(error, "sqlstate", None) or (error.args[0] if error.args else None)
