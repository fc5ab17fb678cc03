"""Corrupt texts in a ledger: whatever reads them for people gives an answer, and never an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from django_idempotent_tasks.beat.recent import Past, decode, encode
from django_idempotent_tasks.exceptions import ResultNotStored
from django_idempotent_tasks.http import jobs
from django_idempotent_tasks.ledger.encoding import decode_error, decode_result, error_parts
from django_idempotent_tasks.ledger.progress import decode_progress, progress_words, share_of
from django_idempotent_tasks.management.dead_letters.export import _call
from django_idempotent_tasks.management.keys.card import _parsed
from django_idempotent_tasks.messages.message import pretty
from django_idempotent_tasks.messages.unreadable import Unreadable, parsed
from django_idempotent_tasks.models import DeadLetter
from django_idempotent_tasks.operations.redaction import call_text

MOMENT = datetime(2026, 1, 5, tzinfo=UTC).isoformat()


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


#: By what is wrong with them. Some are JSON and only none of ours.
CORRUPT = {
    "not JSON": "Traceback (most recent call last)",
    "empty": "",
    "a blank": " ",
    "truncated": '{"done": 3, "total": 5, "no',
    "truncated in an escape": '["\\ud8',
    "nested beyond the parser": "[" * 100_000,
    "objects beyond the parser": '{"a":' * 100_000,
    "nested to the parser's edge": nested(950),
    "nested beyond indentation": nested(400),
    "a number that Python refuses": "9" * 5000,
    "a large number": "9" * 4000,
    "a number that no float holds": "1e999",
    "NaN": "NaN",
    "minus infinity": "[-Infinity]",
    "a lone surrogate": '["\\ud800"]',
    "NUL": '["a\\u0000b"]',
    "NUL as it is": "\x00",
    "a surrogate as it is": "\udcff",
    "null": "null",
    "a text": '"text"',
    "a number": "7",
    "true": "true",
    "an empty list": "[]",
    "an empty object": "{}",
    "a hook that raises": '{"__type__": "datetime", "__value__": "soon"}',
    "a hook that raises no ValueError": '{"__type__": "decimal", "__value__": "x"}',
    "a hook with a wrong type": '{"__type__": "uuid", "__value__": [1]}',
    "a hook that nobody has": '{"__type__": "shop.Money", "__value__": 1}',
    "a type that is none": '{"__type__": [], "__value__": 1}',
    "progress of texts": '{"done": "x", "total": [], "note": {}}',
    "progress of NaN": '{"done": NaN, "total": 3, "note": ""}',
    "progress of infinity": '{"done": Infinity, "total": Infinity, "note": ""}',
    "progress of large numbers": f'{{"done": {"9" * 400}, "total": 3.5, "note": ""}}',
    "progress below 0": '{"done": -1, "total": 3, "note": ""}',
    "progress of truth values": '{"done": true, "total": true, "note": ""}',
    "progress without a note": '{"done": 1, "total": 2}',
    "an error of numbers": '{"error": 1, "message": [2]}',
    "an error that is nested": f'{{"error": {nested(900)}, "message": {nested(900)}}}',
    "a recent of texts": '["abcd"]',
    "a recent of numbers": "[1, 2]",
    "a recent of nulls": "[[null, null, null, null]]",
    "a recent with no moment": f'[["soon", "{uuid4().hex}", "{MOMENT}", ""]]',
    "a recent with no zone": f'[["2026-01-05T12:00:00", "{uuid4().hex}", "2026-01-05T12:00:00", ""]]',
    "a recent with no digest": f'[["{MOMENT}", "x", "{MOMENT}", ""]]',
    "a recent by a list": f'[["{MOMENT}", "{uuid4().hex}", "{MOMENT}", []]]',
    "a message of another shape": '{"v": 1, "args": {}, "kwargs": [], "options": 3}',
    "a message of another version": '{"v": 99, "args": [], "kwargs": {}, "options": {}}',
    "a nested message": f'{{"v": 1, "args": [{nested(900)}], "kwargs": {{}}, "options": {{}}}}',
}


def _progress(text: str) -> object:
    found = decode_progress(text)
    if found is None:
        return None
    assert share_of(found) is None or 0 <= (share_of(found) or 0) <= 1
    return progress_words(found)


def _recent(text: str) -> object:
    """What is read, and that what comes after is kept all the same."""
    past = Past(datetime.now(UTC), uuid4(), datetime.now(UTC))
    assert decode(encode([past], text))[0] == past
    return [str(each) for each in decode(text)]


def _result(text: str) -> object:
    """The only one that raises, and only this: who asks for a value must not take another one for it."""
    try:
        decode_result(text)
    except ResultNotStored as error:
        return str(error)
    return None


def _document(text: str) -> object:
    return jobs._plain(text)


READERS: dict[str, Callable[[str], object]] = {
    "pretty": pretty,
    "call_text": lambda text: call_text("shop.charge", text),
    "card": _parsed,
    "export": lambda text: _call(DeadLetter(message=text)),
    "progress": _progress,
    "recent": _recent,
    "error": decode_error,
    "parts of an error": lambda text: list(error_parts(text)),
    "result": _result,
    "document": _document,
}


@pytest.mark.parametrize("wrong", CORRUPT)
@pytest.mark.parametrize("reader", READERS)
def test_a_corrupt_text_is_an_answer_that_can_be_written_as_json(reader: str, wrong: str) -> None:
    found = READERS[reader](CORRUPT[wrong])
    json.dumps({"answer": [found]})
    if isinstance(found, str) and reader == "pretty":
        assert found


def test_what_cannot_be_read_is_named_by_the_kind_of_the_error_and_not_by_its_text() -> None:
    assert pretty('{"secret": ') == "not readable (JSONDecodeError)"
    assert pretty("[" * 100_000) == "not readable (RecursionError)"
    with pytest.raises(Unreadable, match=r"^not readable \(JSONDecodeError\)$"):
        parsed("secret")


def test_a_document_has_no_number_that_json_has_not() -> None:
    assert jobs._plain("[1e999, NaN, 1.5]") == [None, None, 1.5]
