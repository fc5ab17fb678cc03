"""Guesses whether the next call of a task is a duplicate, by what became of those before it.

A sender that expects one reads the key's row before it tries to write it: a round trip less for each
duplicate in a run of them, one more for the first call that is none.
"""

from __future__ import annotations

#: How sure a guess can be; from ``SURE`` on the next call is expected to be a duplicate.
SURE, MOST = 2, 3

#: By task: one more for each duplicate, one less for each call that was accepted.
_seen: dict[str, int] = {}


def expects_a_duplicate(task: str) -> bool:
    """Whether more of the latest calls of this task were refused here than accepted."""
    return _seen.get(task, 0) >= SURE


def learn(task: str, *, is_duplicate: bool) -> None:
    """Note what became of a call. Threads may overwrite one another's: it is a guess."""
    before = _seen.get(task, 0)
    _seen[task] = min(before + 1, MOST) if is_duplicate else max(before - 1, 0)
