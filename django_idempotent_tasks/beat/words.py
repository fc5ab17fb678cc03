"""Reads the words of an entry to our scheduler, from one header of its messages that is not sent.

``{"idempotent_beat": {"misfire": "all", "overlap": "skip"}}``. Elsewhere such a word does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..conf.values import nearest
from ..exceptions import ConfigurationError

HEADER = "idempotent_beat"
WORDS = {"misfire": ("coalesce", "all", "skip"), "overlap": ("run", "skip")}

#: How many letters a word may differ from a known word to be taken for a typo of it.
_TYPO = 2


def read(own: Any) -> dict[str, str]:
    """The words of one entry's header. Raises ConfigurationError for an unknown word or value."""
    if own in (None, {}):
        return {}
    if not isinstance(own, Mapping):
        raise ConfigurationError(f"The header {HEADER!r} is {own!r}; it must be an object of {_known()}.")
    for word, value in own.items():
        if word not in WORDS:
            raise ConfigurationError(f"The header {HEADER!r} has {word!r}; known are {_known()}.")
        if value not in WORDS[word]:
            msg = f"The header {HEADER!r} has {value!r}; {word!r} in it must be one of {_or(WORDS[word])}."
            raise ConfigurationError(msg)
    return dict(own)


def unread(entry: Mapping[str, Any]) -> Iterator[str]:
    """The words of one entry of ``beat_schedule`` that our scheduler does not read, each with the remedy."""
    options = _mapping(entry.get("options"))
    headers = _mapping(options.get("headers"))
    for place, mapping in (("the entry", entry), ("its options", options)):
        for word, meant in _meant(mapping, within=_TYPO):
            yield _remedy(word, place, meant, mapping[word])
    for word, meant in _meant(headers, within=0):  # a task may have own headers with similar names
        if meant != HEADER:
            yield _remedy(word, "its headers", meant, headers[word])
    try:
        read(headers.get(HEADER))
    except ConfigurationError as error:
        yield str(error)


def without_misplaced(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry without misplaced words, which django-celery-beat refuses or, in a known entry, ignores."""
    misplaced = dict(_meant(entry, within=_TYPO))
    return {word: value for word, value in entry.items() if word not in misplaced}


def _meant(mapping: Mapping[str, Any], *, within: int) -> Iterator[tuple[str, str]]:
    """Each word that resembles a known word, and the known word."""
    for word in map(str, mapping):
        meant = nearest(word, (HEADER, *WORDS), within=within)
        if meant is not None:
            yield word, meant


def _remedy(word: str, place: str, meant: str, value: Any) -> str:
    own = {HEADER: value if meant == HEADER else {meant: value}}
    example = json.dumps({"headers": own}, default=str)
    return f'{word!r} does nothing in {place}; write "options": {example}.'


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _known() -> str:
    return " and ".join(f"{name!r} ({_or(words)})" for name, words in WORDS.items())


def _or(words: tuple[str, ...]) -> str:
    return ", ".join(words)
