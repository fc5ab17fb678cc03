"""The second act's file is what it claims to be, and its verdict reports what is lost, doubled or wrong."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from typing import Any

import pytest

from example_project.demo.registrations.sheet import PLACES_OF_VIPS, TICKETS, make_sheet
from example_project.demo.registrations.verdict import EFFECTS, Judged, Outcome, judge
from example_project.registrations.rows import BadRow, read_row
from example_project.registrations.table import Table

SHEET = make_sheet(300, random.Random(7))
ROWS = {row["line"]: row for row in Table(io.BytesIO(SHEET.body)).rows()}
CODES = {code: 1 for code, *_ in TICKETS}

LOSERS = frozenset(max(pair) for pair in SHEET.pairs)
SEATED = frozenset(sorted(SHEET.vips)[:PLACES_OF_VIPS])
DUE = SHEET.good | SHEET.patrons | SEATED | frozenset(min(pair) for pair in SHEET.pairs)
LEFT = dict.fromkeys(SHEET.fatal, "fatal") | dict.fromkeys(LOSERS | (SHEET.vips - SEATED), "manual_review")
RIGHT = Outcome(
    registered=sorted(DUE),
    charged=sorted(DUE),
    booked=sorted(DUE),
    noted=sorted(DUE),
    printed=sorted(DUE),
    unpaid=[],
    first=LEFT | dict.fromkeys(SHEET.patrons, "retryable"),
    last=LEFT,
    callbacks_before=0,
    callbacks=1,
)
ONE = min(SHEET.good)
BAD = min(SHEET.fatal)


def judged(**changed: Any) -> Judged:
    return judge(SHEET, replace(RIGHT, **changed))


def without(line: int) -> list[int]:
    return sorted(DUE - {line})


def test_every_line_of_the_file_is_of_one_kind() -> None:
    kinds = [SHEET.good, SHEET.fatal, SHEET.vips, SHEET.patrons, *SHEET.pairs]
    assert SHEET.rows == len(ROWS) == 300
    assert sorted(line for kind in kinds for line in kind) == sorted(ROWS)


def test_five_in_a_hundred_lines_are_bad() -> None:
    bad = len(SHEET.fatal) + len(SHEET.pairs) + len(SHEET.vips) - PLACES_OF_VIPS + len(SHEET.patrons)
    assert bad == 15
    assert [len(SHEET.fatal), len(SHEET.pairs), len(SHEET.patrons)] == [6, 3, 3]


def test_the_lines_are_what_they_are_taken_for() -> None:
    for line, row in ROWS.items():
        if line in SHEET.fatal:
            with pytest.raises(BadRow):
                read_row(row, CODES)
        else:
            assert read_row(row, CODES).line == line
    for pair in SHEET.pairs:
        assert len({read_row(ROWS[line], CODES).email for line in pair}) == 1


def test_a_right_run_holds() -> None:
    assert judged() == Judged((), (), (), ())
    assert judged().holds


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_missing_effect_is_lost(effect: str) -> None:
    assert judged(**{effect: without(ONE)}).lost == (f"line {ONE} was not {effect}",)


@pytest.mark.parametrize("effect", EFFECTS)
def test_an_effect_that_is_there_twice_is_doubled(effect: str) -> None:
    assert judged(**{effect: [*DUE, ONE]}).doubled == (f"line {ONE} was {effect} 2 times",)


@pytest.mark.parametrize("effect", EFFECTS)
def test_an_effect_of_a_bad_line_is_unexpected(effect: str) -> None:
    assert judged(**{effect: [*DUE, BAD]}).unexpected == (f"line {BAD} was {effect} unasked",)


def test_both_of_a_pair_or_neither_is_noticed() -> None:
    pair = SHEET.pairs[0]
    both = {name: [*DUE, max(pair)] for name in EFFECTS}
    assert f"line {max(pair)} was charged unasked" in judged(**both).unexpected
    neither = {name: without(min(pair)) for name in EFFECTS}
    assert f"neither of the lines {sorted(pair)} was registered" in judged(**neither).lost


def test_a_place_too_many_or_too_few_is_noticed() -> None:
    more = {name: [*DUE, max(SHEET.vips)] for name in EFFECTS}
    assert f"line {max(SHEET.vips)} was registered unasked" in judged(**more).unexpected
    fewer = {name: without(min(SEATED)) for name in EFFECTS}
    assert f"{PLACES_OF_VIPS - 1} of {PLACES_OF_VIPS} places were given away" in judged(**fewer).lost


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"last": LEFT | {BAD: "manual_review"}}, f"line {BAD} is manual_review in the end, not fatal"),
        ({"last": LEFT | {ONE: "fatal"}}, f"line {ONE} is fatal in the end, not None"),
        ({"first": LEFT}, f"line {min(SHEET.patrons)} is None at first, not retryable"),
        ({"callbacks": 2}, "the callback came 0 times before the end, 2 in all"),
        ({"callbacks": 0}, "the callback came 0 times before the end, 0 in all"),
        ({"callbacks_before": 1}, "the callback came 1 times before the end, 1 in all"),
    ],
)
def test_a_wrong_category_and_a_callback_too_many_are_noticed(changed: dict[str, Any], words: str) -> None:
    found = judged(**changed)
    assert words in found.wrong
    assert not found.holds


def test_what_is_never_paid_is_lost() -> None:
    assert judged(unpaid=[ONE]).lost == (f"line {ONE} is not paid",)
