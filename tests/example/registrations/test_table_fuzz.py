"""Whatever the bytes of a file are: it is refused with a clear word, or no letter of it is lost."""

from __future__ import annotations

import csv
import io
import string
from contextlib import suppress
from typing import Any, Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st

from example_project.registrations.cells import guarded, unguarded
from example_project.registrations.rows import LONGEST_ADDRESS, BadRow, read_row
from example_project.registrations.table import COLUMNS, Table, TableError

LETTERS = frozenset(string.ascii_letters + string.digits)
#: As spreadsheets write them: no NUL, no half of a pair of surrogates, no lone CR.
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=20)
TABLES = st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=1, max_size=8)
#: What damages a file: on its way, in an editor, by a program that does not quote.
DAMAGE = st.sampled_from(
    [b"\0", b'"', b'""', b"\n", b"\r", b"\r\n", b"\xff", b"\xef\xbb\xbf", b"", b"'", b";"]
)


def written(rows: list[list[str]], *, delimiter: str, quoting: Literal[0, 1]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting)
    writer.writerow(COLUMNS)
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    return out.getvalue().encode()


def read(body: bytes) -> list[dict[str, Any]]:
    return list(Table(io.BytesIO(body)).rows())


@settings(deadline=None)
@given(
    rows=TABLES,
    delimiter=st.sampled_from(",;\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_what_was_written_is_what_is_read(
    rows: list[list[str]], delimiter: str, quoting: Literal[0, 1], mark: bytes
) -> None:
    found = read(mark + written(rows, delimiter=delimiter, quoting=quoting))
    sent = [row for row in rows if any(guarded(cell).strip() for cell in row)]
    assert [[row[name] for name in COLUMNS] for row in found] == sent


@settings(deadline=None)
@given(rows=TABLES, damage=DAMAGE, at=st.integers(0, 400), cut=st.integers(0, 3))
@example(rows=[["a", "b", "c", "d"]], damage=b'"', at=28, cut=0)
def test_a_damaged_file_is_refused_or_keeps_every_letter(
    rows: list[list[str]], damage: bytes, at: int, cut: int
) -> None:
    body = written(rows, delimiter=",", quoting=csv.QUOTE_MINIMAL)
    at = min(at, len(body))
    body = body[:at] + damage + body[at + cut :]
    try:
        found = read(body)
    except TableError:
        return
    if any("more" in row for row in found):
        return  # each of them is refused by itself, and named by its line
    kept = [letter for row in found for name in COLUMNS for letter in row.get(name, "") if letter in LETTERS]
    below = body.decode("utf-8-sig").partition("\n")[2]
    assert sorted(kept) == sorted(letter for letter in below if letter in LETTERS)


@settings(deadline=None)
@given(body=st.binary(max_size=400))
@example(body=b"\xff\xfe")
@example(body=b"email,name,ticket,quantity\n,,,")
def test_no_bytes_at_all_raise_anything_else(body: bytes) -> None:
    with suppress(TableError):
        assert all(read(body))


TEXTS = st.text(max_size=300)


@settings(deadline=None)
@given(value=st.dictionaries(st.sampled_from(COLUMNS), TEXTS), more=st.sampled_from([{}, {"more": 2}]))
def test_a_row_is_sound_or_bad_and_a_sound_one_can_be_stored(
    value: dict[str, str], more: dict[str, int]
) -> None:
    try:
        row = read_row({"line": 2, **value, **more}, {"vip": 1})
    except BadRow:
        return
    assert len(row.email) <= LONGEST_ADDRESS
    assert len(row.name) <= 100
    assert (row.ticket, 1 <= row.quantity <= 10) == ("vip", True)
    assert "\0" not in row.email + row.name


@settings(deadline=None)
@given(text=CELLS)
def test_a_cell_that_goes_out_and_comes_in_is_the_same(text: str) -> None:
    assert unguarded(guarded(text)) == text
    assert guarded(text)[:1] not in {"=", "+", "-", "@", "\t", "\r", "\n"}
