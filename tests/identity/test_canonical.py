from __future__ import annotations

import hashlib
import itertools
import sys
from collections import Counter, OrderedDict, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.utils.functional import SimpleLazyObject, lazystr
from django.utils.safestring import SafeString

from django_idempotent_tasks.exceptions import InvalidKey
from django_idempotent_tasks.identity.canonical import canonical_json

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
ID = UUID(int=7)


class Colour(Enum):
    RED = "red"
    BOTH = ("red", 1)


class Word(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@dataclass
class Money:
    amount: int
    currency: str = "EUR"


@dataclass(frozen=True)
class Price:
    amount: int
    currency: str = "EUR"


@dataclass
class Order:
    items: list[object] = field(default_factory=list)


Point = namedtuple("Point", "x y")  # noqa: PYI024 - as projects have them


class Row:
    def __init__(self, label: str, pk: object) -> None:
        self._meta = SimpleNamespace(concrete_model=SimpleNamespace(_meta=SimpleNamespace(label=label)))
        self.pk = pk


def text(value: object) -> str:
    return canonical_json(value, where="key")


EQUALS: list[tuple[object, ...]] = [
    (1, 1.0, Level.LOW),
    (0, 0.0, -0.0),
    (10**22, 1e22),
    ([1.0, "1.0"], [1, "1.0"]),
    (Decimal(1), Decimal("1.0"), Decimal("1.00"), Decimal("10E-1")),
    (Decimal(0), Decimal("-0.00"), Decimal("0E+9")),
    (Decimal(100), Decimal("1E+2")),
    ([1, 2], (1, 2), Point(1, 2)),
    ({1, 2}, {2, 1}, frozenset({2.0, 1})),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, OrderedDict(b=2, a=1), Counter(b=2, a=1)),
    ({1: "a"}, {"1": "a"}),
    ({None: 1, False: 2, 2.5: 3, 10: 4, 9: 5}, {"null": 1, "false": 2, "2.5": 3, "9": 5, "10": 4}),
    ("red", Colour.RED, Word.RED, SafeString("red"), lazystr("red")),
    ({"red": 1}, {Word.RED: 1}),
    (["red", 1], Colour.BOTH),
    (b"ab", bytearray(b"ab"), memoryview(b"ab")),
    (NOON, NOON.astimezone(ZoneInfo("Asia/Kathmandu")), NOON.astimezone(timezone(timedelta(hours=-3)))),
    (timedelta(days=1), timedelta(hours=24)),
    (Money(1), Money(1, "EUR"), Money(amount=1.0)),  # type: ignore[arg-type]
    (Row("shop.Order", 7), Row("shop.Order", 7)),
    ("\ud83d\ude00", "😀"),
    ({"\ud83d\ude00": 1, "\uffff": 2}, {"😀": 1, "\uffff": 2}),
]


@pytest.mark.parametrize("values", EQUALS, ids=range(len(EQUALS)))
def test_equal_values_share_a_text(values: tuple[object, ...]) -> None:
    assert len({text(value) for value in values}) == 1
    assert len({text([value, Decimal(1)]) for value in values}) == 1


DIFFERENT: list[object] = [
    *[None, True, False, 0, 1, -1, 1.5, "", "0", "1", "1.0", "None", "null", "true", "True", " 1", "1 "],
    *[Decimal(0), Decimal(1), Decimal("1.5"), Decimal("1E+9"), 10**9, Decimal("0.1"), "0.1", 0.1],
    *[0.1 + 0.2, 0.3, 2**53, 2**53 + 1, 1e300, 1e-7],
    *[[], [None], [1], ["1"], [[1]], [True], [1, 23], [12, 3], [123], ["a", "b"], ["ab"], [[], []]],
    *[{}, {"a": 1}, {"a": "1"}, {"A": 1}, {"a": None}, {"a": 1, "b": None}, {"a": {"b": 1}}, [["a", 1]]],
    *[set(), {1}, {"1"}, {1, 2}, {frozenset()}, {frozenset({1})}, {(1,)}],
    *[b"", b"1", b"[1]", ID, ID.hex, str(ID), ID.bytes, timedelta(1), 86400, timedelta(microseconds=1)],
    *[NOON, NOON.replace(tzinfo=None), NOON.isoformat(), NOON.date(), NOON.timetz(), NOON.time(), 12],
    *[NOON + timedelta(microseconds=1), NOON.timestamp(), time(12, tzinfo=timezone(timedelta(hours=1)))],
    *[Money(1), Money(1, "USD"), Price(1), {"amount": 1, "currency": "EUR"}, [1, "EUR"]],
    *[Row("shop.Order", 7), Row("shop.Item", 7), Row("shop.Order", "7"), ["shop.Order", 7], 7],
    *["é", "e\u0301", "\0", "\ud800", "\udfff", "\udfff\ud800", "\\ud800", "\\u0000", "\u2028"],
    *["straße", "STRASSE", "strasse", text(Decimal(1))],
    # What a caller would pass to get the text of another value.
    *[{"!decimal": "1"}, {"!!decimal": "1"}, {"!set": [1]}, {"!uuid": ID.hex}, {"!bytes": "31"}, {"!": 1}],
    *[{"!datetime": NOON.isoformat()}, {"!timedelta": 1}, {"!model": ["shop.Order", 7]}, {"!missing": True}],
]


def test_different_values_never_share_a_text() -> None:
    for written in (text, lambda value: text({"k": [value, 1.0]})):
        clashes = [(a, b) for a, b in itertools.combinations(DIFFERENT, 2) if written(a) == written(b)]
        assert clashes == []


def test_known_md5_collisions_stay_apart() -> None:
    first = bytearray.fromhex(
        "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f89"
        "55ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5b"
        "d8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0"
        "e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70"
    )
    second = bytearray(first)
    for position in (19, 45, 59, 83, 109, 123):
        second[position] ^= 0x80
    assert hashlib.md5(first).digest() == hashlib.md5(second).digest()  # noqa: S324
    assert text(bytes(first)) != text(bytes(second))


REFUSED: list[tuple[object, str]] = [
    (float("nan"), "NaN and Infinity"),
    (float("-inf"), "NaN and Infinity"),
    ([1, 1e400], "NaN and Infinity"),
    (Decimal("sNaN"), "NaN and Infinity"),
    (Decimal("-Infinity"), "NaN and Infinity"),
    (object(), "object has no canonical form; pass an id"),
    (Money, "type has no canonical form"),
    (PurePosixPath("/"), "PurePosixPath has no canonical form"),
    (1j, "complex has no canonical form"),
    (len, "builtin_function_or_method has no canonical form"),
    (range(3), "range has no canonical form"),
    (iter([]), "list_iterator has no canonical form"),
    (MagicMock(), "MagicMock has no canonical form"),
    (SimpleLazyObject(lambda: "x"), "SimpleLazyObject has no canonical form"),
    (Row("shop.Order", None), "an unsaved shop.Order has no primary key; save it first"),
    (Row("shop.Order", (1, None)), "an unsaved shop.Order has no primary key"),
    ({(1, 2): 3}, "a tuple cannot be a key in JSON"),
    ({ID: 3}, "a uuid.UUID cannot be a key in JSON"),
    ({float("nan"): 3}, "NaN and Infinity"),
    ({1: "a", "1": "b"}, "two of its keys become '1' in JSON"),
    ({"\ud83d\ude00": 1, "😀": 2}, "two of its keys become"),
    (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "outside the years 1 to 9999"),
    (10**5000, "so many digits"),
    ([10**5000], "so many digits"),
    ({10**5000: 1}, "so many digits"),
]


@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_what_has_no_canonical_form_is_refused_with_a_remedy(value: object, reason: str) -> None:
    with pytest.raises(InvalidKey, match=r"^key(, at .*)?: ") as refusal:
        text(value)
    assert reason in str(refusal.value)


def test_a_refusal_says_where() -> None:
    value = {"order": Order(items=[1, 2, 3, {"odd key": {"pk": Row("shop.Order", (1, [object()]))}}])}
    with pytest.raises(InvalidKey) as refusal:
        canonical_json(value, where="argument 'cart' of shop.charge")
    message = str(refusal.value)
    assert message.startswith(
        "argument 'cart' of shop.charge, at order.items[3]['odd key'].pk.pk[1][0]: object has"
    )


def test_a_refusal_shows_no_values_and_little_of_a_key() -> None:
    with pytest.raises(InvalidKey) as refusal:
        text({"k" * 5000 + " ": [1, {"card": "4111", "x": object()}]})
    assert "4111" not in str(refusal.value)
    assert len(str(refusal.value)) < 250


def nested(depth: int, innermost: object = 1) -> Any:
    value: Any = innermost
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("innermost", [1, Decimal(1)])
def test_a_hundred_levels_are_fine(innermost: object) -> None:
    assert text(nested(100, innermost)) == "[" * 100 + text(innermost) + "]" * 100


@pytest.mark.parametrize("innermost", [1, 1.0, object()])
def test_a_hundred_thousand_levels_are_refused(innermost: object) -> None:
    with pytest.raises(InvalidKey, match="key: it is nested too deeply, or contains itself"):
        text(nested(100_000, innermost))


@pytest.mark.parametrize("loop", [[], {}], ids=["list", "dict"])
def test_a_value_that_contains_itself_is_refused(loop: Any) -> None:
    loop.append(loop) if isinstance(loop, list) else loop.update(me=loop)
    with pytest.raises(InvalidKey, match="nested too deeply, or contains itself"):
        text(loop)


def test_nested_sets_stay_small() -> None:
    value: frozenset[object] = frozenset()
    for _ in range(60):
        value = frozenset({value, "a"})
    assert len(text(value)) < 60 * 20


def test_a_huge_exponent_is_not_written_out() -> None:
    assert text(Decimal("1.50E+999999999")) == '{"!decimal":"1.5E+999999999"}'


def test_a_long_decimal_is_not_rounded_whatever_the_context() -> None:
    with localcontext() as context:
        context.prec, context.capitals = 2, 0
        assert text(Decimal("1.23456789E+50")) == '{"!decimal":"1.23456789E+50"}'


def test_the_text_is_ascii_and_keeps_every_character_of_a_megabyte() -> None:
    value = ["\0é\ud800😀" * 50_000, "x" * 1_000_000]
    assert text(value).isascii()
    assert text(value) != text([value[0], "x" * 999_999 + "y"])


GOLDEN = {
    '{"a":[1,true,null,"\\u00e9\\u0000\\ud800"],"b":{"!!x":0.1}}': {
        "b": {"!x": 0.1},
        "a": (1, True, None, "é\0\ud800"),
    },
    "[10000000000000000000000,1e-07,99999999999999991611392]": [1e22, 1e-7, 1e23],
    '{"!datetime":"2024-03-01T12:00:00+00:00"}': NOON,
    '{"!datetime":"2024-03-01T12:00:00.000001"}': datetime(2024, 3, 1, 12, 0, 0, 1),  # noqa: DTZ001
    '[{"!date":"2024-03-01"},{"!time":"12:30:00"},{"!timedelta":-1}]': [
        date(2024, 3, 1),
        time(12, 30),
        timedelta(microseconds=-1),
    ],
    '{"!set":["a",1,[2],{"!uuid":"00000000000000000000000000000007"}]}': {1, "a", ID, (2,)},
    '[{"!bytes":"00ff"},{"!decimal":"-1.5"}]': [b"\x00\xff", Decimal("-1.50")],
    f'{{"!dataclass":["{__name__}.Money",{{"amount":1,"currency":"EUR"}}]}}': Money(1),
    '{"!model":["shop.Order",{"!uuid":"00000000000000000000000000000007"}]}': Row("shop.Order", ID),
}


@pytest.mark.parametrize("golden", GOLDEN, ids=range(len(GOLDEN)))
def test_the_text_never_changes(golden: str) -> None:
    assert text(GOLDEN[golden]) == golden


def test_the_limit_on_digits_in_force_is_the_one_that_refuses() -> None:
    limit = sys.get_int_max_str_digits()
    assert text(10 ** (limit - 1)) == "1" + "0" * (limit - 1)
