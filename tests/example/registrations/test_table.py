"""An uploaded file is read row by row: every row of a sound one, and a clear word about any other."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import pytest

from example_project.registrations.cells import FORMULAS, guarded, unguarded
from example_project.registrations.table import LONGEST_RECORD, LONGEST_ROW, MOST_ROWS, Table, TableError

HEADER = b"email,name,ticket,quantity\n"


def rows(body: bytes, **limits: int) -> list[dict[str, Any]]:
    table = Table(io.BytesIO(body), **limits)
    found = table.summary()
    read = list(table.rows())
    assert found.rows == len(read)
    return read


ANN = {"line": 2, "email": "ann@x.org", "name": "Ann", "ticket": "vip", "quantity": "1"}
SOUND = {
    "plain": (HEADER + b"ann@x.org,Ann,vip,1\n", [ANN]),
    "without a last line break": (HEADER + b"ann@x.org,Ann,vip,1", [ANN]),
    "of Windows": (b"email,name,ticket,quantity\r\nann@x.org,Ann,vip,1\r\n", [ANN]),
    "with a byte order mark": (b"\xef\xbb\xbf" + HEADER + b"ann@x.org,Ann,vip,1\n", [ANN]),
    "with semicolons": (b"email;name;ticket;quantity\nann@x.org;Ann;vip;1\n", [ANN]),
    "with tabs": (b"email\tname\tticket\tquantity\nann@x.org\tAnn\tvip\t1\n", [ANN]),
    "in another order": (b"Quantity, TICKET ,Name,E-Mail,Email\n1,vip,Ann,,ann@x.org\n", [ANN]),
    "with further columns": (b"email,name,ticket,quantity,,\nann@x.org,Ann,vip,1,x,y\n", [ANN]),
    "with empty rows": (HEADER + b"\n,,,\nann@x.org,Ann,vip,1\n , ,\n\r\n", [{**ANN, "line": 4}]),
    "quoted": (HEADER + '"ann@x.org","An""n, née\nB","vip",1\n'.encode(), [{**ANN, "name": 'An"n, née\nB'}]),
    "with a quote inside": (HEADER + b'ann@x.org,5" Ann,vip,1\n', [{**ANN, "name": '5" Ann'}]),
    "with a short row": (HEADER + b"ann@x.org,Ann\n", [{"line": 2, "email": "ann@x.org", "name": "Ann"}]),
    "with a long row": (HEADER + b"ann@x.org,Ann,vip,1,2,3\n", [{**ANN, "more": 2}]),
    "with a guarded cell": (HEADER + b"ann@x.org,'=Ann,vip,1\n", [{**ANN, "name": "=Ann"}]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "read"), SOUND.values(), ids=SOUND.keys())
def test_every_row_of_a_sound_file_is_read(body: bytes, read: list[dict[str, Any]]) -> None:
    assert rows(body) == read


REFUSED = {
    "empty": (b"", "no column email, name"),
    "only a header": (HEADER, "no row below the header"),
    "another header": (b"mail,who\n", "no column email, name, ticket, quantity"),
    "a column missing": (b"email,name,ticket\na,b,c\n", "no column quantity"),
    "a column twice": (b"email,name,ticket,quantity,Email\n", "column email twice"),
    "UTF-16": ((HEADER + b"a").decode().encode("utf-16"), "is UTF-16: save it as CSV UTF-8"),
    "UTF-16 without a mark": (HEADER.decode().encode("utf-16-le"), "is UTF-16"),
    "UTF-16, big end first": (HEADER.decode().encode("utf-16-be"), "is UTF-16"),
    "Latin-1": (HEADER + "ann@x.org,Zoé,vip,1\n".encode("latin-1"), "Line 2 is not UTF-8"),
    "a NUL": (HEADER + b"a,b,c,d\nx\0,b,c,d\n", "Line 3 has a NUL byte"),
    "a quote that is not closed": (HEADER + b'a,b,c,d\n"a,b,c,d\na,b,c,d\n', "line 3 cannot be read"),
    "text behind a quote": (HEADER + b'"a"b,b,c,d\n', "begins at line 2 cannot be read"),
    "a header with an open quote": (b'"email,name\n', "begins at line 1 cannot be read"),
    "line breaks of old Macs": (HEADER + b"a,b,c,d\ra,b,c,d\r", "begins at line 2 cannot be read"),
    "a row with too much text": (HEADER + b"a," + b"b" * LONGEST_RECORD + b",c,d\n", "line 2 has more than"),
    "a row over endless lines": (HEADER + b'"' + b'a\n","' * LONGEST_ROW, "begins at line 2 has more than"),
    "too many rows": (HEADER + b"a,b,c,d\n" * 4, "more than 3 rows. Divide the file"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_another_file_is_refused_with_the_line_and_the_remedy(body: bytes, words: str) -> None:
    with pytest.raises(TableError, match=words):
        rows(body, most_rows=3)


class Endless:
    """A file that begins as given and goes on as one line without end; it counts what is taken of that."""

    def __init__(self, *lines: bytes) -> None:
        self.lines, self.taken = list(lines), 0

    def readline(self, size: int) -> bytes:
        if self.lines:
            return self.lines.pop(0)
        self.taken += size
        return b"x" * size

    def seek(self, _place: int) -> None:
        pass


@pytest.mark.parametrize("lines", [[], [HEADER], [HEADER, b"a,b,c,d\n"]])
def test_a_line_without_end_is_refused_after_its_first_bytes(lines: list[bytes]) -> None:
    file = Endless(*lines)
    with pytest.raises(TableError, match=r"has more than 65536 bytes\. Is a quote not closed"):
        list(Table(file).rows())
    assert file.taken == LONGEST_ROW + 1


class Generated:
    """A file of many rows that is nowhere as a whole."""

    def __init__(self, count: int) -> None:
        self.count, self.line = count, 0

    def readline(self, _size: int) -> bytes:
        self.line += 1
        if self.line == 1:
            return HEADER
        return b"a%d@x.org,Ann,vip,1\n" % self.line if self.line <= self.count + 1 else b""

    def seek(self, _place: int) -> None:
        self.line = 0


def test_a_hundred_thousand_rows_are_read_without_being_held() -> None:
    tracemalloc.start()
    found = Table(Generated(MOST_ROWS)).summary()
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.rows == MOST_ROWS
    assert most < 1_000_000
    with pytest.raises(TableError, match="more than 100000 rows"):
        Table(Generated(MOST_ROWS + 1)).summary()


def test_the_same_bytes_are_the_same_file_and_others_are_not() -> None:
    one, two = HEADER + b"a,b,c,d\n", HEADER + b"a,b,c,e\n"
    digests = [Table(io.BytesIO(body)).summary().digest for body in (one, one, two)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("mark", [*FORMULAS, "'"])
def test_what_a_spreadsheet_would_run_is_shown_and_comes_back_whole(mark: str) -> None:
    text = f"{mark}cmd|' /C calc'!A0"
    assert guarded(text)[0] == "'"
    assert unguarded(guarded(text)) == text


@pytest.mark.parametrize("text", ["Ann", "", "a=b", "1-2", "'t Hooft", "né"])
def test_other_texts_stay_what_they_are(text: str) -> None:
    assert unguarded(text) == text
    assert unguarded(guarded(text)) == text
