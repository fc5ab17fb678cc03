"""Guesses whether the next call of a task is a duplicate, by what became of those before it.

Who expects one asks first whether the key's row refuses the call, before anything is claimed or reserved: a
duplicate in a run of them costs one statement and no transaction, the first call that is none one statement
more.
"""

from __future__ import annotations

#: How sure a guess can be; from ``SURE`` on the next call is expected to be a duplicate.
SURE, MOST = 2, 3

#: By place, where calls are sent or where they are run, and by task: one more for each duplicate, one less
#: for each call that was accepted.
_seen: dict[tuple[str, str], int] = {}


def expects_a_duplicate(place: str, task: str) -> bool:
    """Whether more of the latest calls of this task were refused at this place than accepted."""
    return _seen.get((place, task), 0) >= SURE


def learn(place: str, task: str, *, is_duplicate: bool) -> None:
    """Note what became of a call. Threads may overwrite one another's: it is a guess."""
    before = _seen.get((place, task), 0)
    _seen[place, task] = min(before + 1, MOST) if is_duplicate else max(before - 1, 0)
