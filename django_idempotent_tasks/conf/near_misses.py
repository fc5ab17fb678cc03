"""Finds what was meant by a name that does not exist: another library's word, or one that was misspelt."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

from .values import nearest

#: Words for our options in other libraries or in earlier drafts, and what to write instead.
WORDS = {
    "atomic": "mode='atomic'",
    "expected_exceptions": "'expected_errors'",
    "idempotency": "'key'",
    "idempotency_key": "'key'",
    "idempotent_key": "'key'",
    "idempotencykey": "'key'",
    "permanent_exceptions": "'permanent_errors'",
    "review_exceptions": "'review_errors'",
    "shadow_mode": "enforce=False",
    "transient_exceptions": "'transient_errors'",
    "ttl": "'retention', how long a finished key refuses duplicates, or 'lease', how long a claim lasts"
    " without a sign of life",
    "unique_key": "'key'",
}

#: What the keyword ``idempotency_key`` of a call is taken for; written without underscores.
KEYWORDS = frozenset({"idempotency", "idempotencykey", "idempotentkey", "key"})

#: How alike two names must be, 1 for equal ones: Celery's own ``store_eager_result`` is 0.8 like ours.
_OPTION, _SETTING = 0.85, 0.8


@cache  # each task of a project has the same few names of Celery's and of ours
def meant_option(name: str, known: tuple[str, ...]) -> str | None:
    """What to write instead of an option's name; None for a name that is nobody's misspelling of ours."""
    if name in WORDS:
        return WORDS[name]
    bare = name.removeprefix("idempotency_").removeprefix("idempotent_")
    if bare != name and bare in known:
        return repr(bare)
    guess = nearest(name, known, within=2) or _alike(name, known, _OPTION)
    return None if guess is None else repr(guess)


def meant_setting(name: str, known: str) -> bool:
    """Whether the name of a Django setting is a misspelling of ``known``."""
    return name != known and name.isupper() and bool(_alike(name, (known,), _SETTING))


def misspelt_keyword(names: Iterable[str]) -> str | None:
    """The first name that was meant for a call's ``idempotency_key``; None without one."""
    return next((name for name in names if name.replace("_", "").lower() in KEYWORDS), None)


def _alike(name: str, known: Iterable[str], cutoff: float) -> str | None:
    return next(iter(get_close_matches(name, known, n=1, cutoff=cutoff)), None)
