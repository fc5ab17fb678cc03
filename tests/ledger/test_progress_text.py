"""A report on progress as text: bounded, storable everywhere, and readable by people."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_idempotent_tasks.ledger.progress import (
    LARGEST,
    LIMIT,
    NOTE_LIMIT,
    decode_progress,
    encode_progress,
    progress_words,
    share_of,
)


@settings(deadline=None)
@given(
    done=st.integers(0, LARGEST) | st.floats(0, LARGEST),
    total=st.none() | st.integers(0, LARGEST) | st.floats(0, LARGEST),
    note=st.text(max_size=900) | st.text(st.sampled_from('"\\\x00\n\ud800é東🧾'), max_size=900),
)
def test_any_report_fits_is_storable_and_comes_back(done: float, total: float | None, note: str) -> None:
    text = encode_progress(done, total, note)
    assert len(text) <= LIMIT
    assert "\x00" not in text.encode().decode()
    found = decode_progress(text)
    assert found is not None
    assert (found["done"], found["total"]) == (done, total)
    kept = str(found["note"])
    assert len(kept) <= NOTE_LIMIT
    assert kept.encode().decode() == kept
    assert not any(ord(char) < 32 for char in kept)


def test_a_short_note_is_kept_as_it_is() -> None:
    text = encode_progress(Decimal("2.5"), 5, '  week "2":\nGrüße, 東京 🧾\x00 ')
    assert json.loads(text) == {"done": 2.5, "total": 5, "note": 'week "2": Grüße, 東京 🧾'}
    assert json.loads(encode_progress(1, None, None)) == {"done": 1, "total": None, "note": ""}


def test_a_long_note_is_cut_and_says_so() -> None:
    found = decode_progress(encode_progress(1, 2, "x" * 900))
    assert found is not None
    assert found["note"] == "x" * (NOTE_LIMIT - 1) + "…"


@pytest.mark.parametrize(
    ("report", "words", "share"),
    [
        ((3, 5, "reading"), "3 of 5 (60%): reading", 0.6),
        ((7, 5, ""), "7 of 5 (100%)", 1.0),
        ((0, 0, ""), "0 of 0", None),
        ((3, None, ""), "3", None),
        ((999, 1000, ""), "999 of 1000 (99%)", 0.999),
    ],
)
def test_people_read_it_as_words(report: tuple[int, int | None, str], words: str, share: float) -> None:
    found = decode_progress(encode_progress(*report))
    assert found is not None
    assert (progress_words(found), share_of(found)) == (words, share)


@pytest.mark.parametrize("text", [None, "", "{}", "[]", "7", "not json", "null"])
def test_what_cannot_be_read_is_no_report(text: str | None) -> None:
    assert decode_progress(text) is None


@pytest.mark.parametrize(
    "wrong",
    [-1, float("nan"), float("inf"), 2**53, 10**400, "3", b"3", True, None, 1j, [1], Decimal("NaN")],
    ids=lambda value: f"{value!r:.20}",
)
def test_what_is_no_number_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"done must be a number from 0 to 2\*\*53 - 1"):
        encode_progress(wrong, None, "")
    if wrong is not None:
        with pytest.raises(ValueError, match=r"total must be .* Leave total out"):
            encode_progress(1, wrong, "")
