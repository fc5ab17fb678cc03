from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kombu.utils.json import dumps, loads

import django_idempotent_tasks
from django_idempotent_tasks.identity.arguments import Binder
from django_idempotent_tasks.identity.canonical import canonical_json
from django_idempotent_tasks.identity.key import Identity, identify
from django_idempotent_tasks.identity.rules import ALL_ARGUMENTS, KeyRules
from django_idempotent_tasks.identity.text import arguments_text, for_people

UNHURRIED = settings(deadline=None, max_examples=100)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 3),
    st.integers(-3, 3).map(float),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.text(st.characters(codec=None), max_size=3),
    st.sampled_from(
        ["1", "1.0", "null", "true", "!", "!set", "1E+1", "2024-01-01", "\ud83d\ude00", "\ud83d", "😀"]
    ),
)
natives = st.one_of(
    st.decimals(-100, 100, places=2),
    st.integers(-3, 3).map(Decimal),
    st.uuids(),
    st.binary(max_size=3),
    st.dates(date(2024, 1, 1), date(2024, 1, 3)),
    st.datetimes(timezones=st.none() | st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))])),
    st.sampled_from([datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)]),  # noqa: DTZ001
    st.times(),
)
keys = st.sampled_from(["a", "b", "1", "!set", "!!set", "!", "!uuid"]) | st.text(max_size=3)


def containers(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=6,
    )


sendable = containers(scalars | natives)
hashable = st.recursive(scalars | natives, lambda inner: st.frozensets(inner, max_size=3), max_leaves=4)
values = containers(hashable | st.timedeltas() | st.sampled_from([timedelta(1), bytearray(b"1")]))


def joined(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


#: The contract's equality, written down without any text.
MEANINGS: dict[type, Callable[[Any], tuple[object, ...]]] = {
    type(None): lambda _: ("none",),
    bool: lambda value: ("bool", value),
    int: lambda value: ("number", Fraction(value)),
    float: lambda value: ("number", Fraction(value)),
    Decimal: lambda value: ("decimal", Fraction(value)),
    str: lambda value: ("text", joined(value)),
    bytes: lambda value: ("bytes", value),
    bytearray: lambda value: ("bytes", bytes(value)),
    datetime: lambda value: ("moment", value.astimezone(UTC)) if value.tzinfo else ("datetime", value),
    list: lambda value: ("list", *map(meaning, value)),
    tuple: lambda value: ("list", *map(meaning, value)),
    frozenset: lambda value: ("set", frozenset(map(meaning, value))),
    dict: lambda value: ("dict", frozenset((joined(key), meaning(item)) for key, item in value.items())),
}


def meaning(value: Any) -> tuple[object, ...]:
    kind = type(value)
    return MEANINGS[kind](value) if kind in MEANINGS else (kind, value)


def text(value: object) -> str:
    return canonical_json(value, where="key")


def has_ambiguous_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return len({joined(key) for key in value}) < len(value) or any(
            map(has_ambiguous_keys, value.values())
        )
    return isinstance(value, list | tuple) and any(map(has_ambiguous_keys, value))


@UNHURRIED
@given(st.lists(values.filter(lambda value: not has_ambiguous_keys(value)), min_size=2, max_size=12))
def test_two_values_share_a_text_exactly_when_they_mean_the_same(drawn: list[Any]) -> None:
    drawn += [json.loads(text(value)) for value in drawn]  # what would be passed to pass for another value
    for one, other in itertools.combinations(drawn, 2):
        assert (text(one) == text(other)) == (meaning(one) == meaning(other))


@UNHURRIED
@given(values.filter(lambda value: not has_ambiguous_keys(value)))
def test_a_value_has_one_text_wherever_it_stands(value: Any) -> None:
    # Beside a Decimal the value takes the long way, alone it may take the fast one.
    assert text([value, Decimal(1)]) == f'[{text(value)},{{"!decimal":"1"}}]'


def task(a: Any, b: Any = 2, *rest: Any, c: Any = None, **extra: Any) -> None: ...


BINDER = Binder(task, skip_first=False)
RULES = [
    KeyRules(binder=BINDER),
    KeyRules(binder=BINDER, key="a", fingerprint=("b", "zz")),
    KeyRules(binder=BINDER, key=("a", "zz"), fingerprint="c"),
    KeyRules(binder=BINDER, key=lambda *args, **kwargs: [args, kwargs]),
]


def name(rules: KeyRules, args: Any, kwargs: Any) -> Identity:
    return identify("shop.task", rules, args, kwargs, task_id="id-1")


@UNHURRIED
@given(
    rules=st.sampled_from(RULES),
    args=st.lists(sendable, min_size=1, max_size=3).map(tuple),
    kwargs=st.dictionaries(st.sampled_from(["c", "zz"]), sendable),
)
def test_a_call_is_the_same_before_and_after_the_wire(
    rules: KeyRules, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    arrived_args, arrived_kwargs = loads(dumps([args, kwargs]))
    assert name(rules, args, kwargs).digest == name(rules, arrived_args, arrived_kwargs).digest
    assert name(rules, args, kwargs).fingerprint == name(rules, arrived_args, arrived_kwargs).fingerprint


@UNHURRIED
@given(a=sendable, b=sendable, c=sendable)
def test_every_spelling_of_a_call_has_one_identity(a: Any, b: Any, c: Any) -> None:
    spellings = [((a, b), {"c": c}), ((a,), {"c": c, "b": b}), ((), {"b": b, "a": a, "c": c})]
    for rules in RULES[:3]:
        assert len({name(rules, args, kwargs) for args, kwargs in spellings}) == 1
        assert name(rules, (a,), {}) == name(rules, (), {"c": None, "a": a, "b": 2})


def charge(größe: Any, amount: Any = "9.90") -> None: ...  # noqa: PLC2401  a name that JSON escapes


@UNHURRIED
@given(first=sendable, second=st.just("9.90") | sendable)
@example(first="\ud83d\ude00", second=["\ud83d\ude00"])
def test_an_identity_is_made_of_the_canonical_texts_of_what_arrives(first: Any, second: Any) -> None:
    arrived = dict(zip(("größe", "amount"), loads(dumps([first, second])), strict=True))
    keys: dict[Any, Any] = {
        ALL_ARGUMENTS: arrived,
        "amount": arrived["amount"],
        ("größe", "amount"): [*arrived.values()],
        ("amount", "größe"): [*reversed(arrived.values())],
    }
    for key, value in keys.items():
        found = name(KeyRules(binder=Binder(charge, skip_first=False), key=key), (first,), {"amount": second})
        text = f'["shop.task",null,{canonical_json(value, where="here")}]'
        assert found.digest.bytes == sha256(text.encode()).digest()[:16]
        names = [*arrived] if key is ALL_ARGUMENTS else [key] if isinstance(key, str) else key
        assert found.key_text == for_people(arguments_text(names, arrived))
        assert (found.scope, found.fingerprint) == (None, None)


words = st.text('ab",[]1!', max_size=3)


@UNHURRIED
@given(st.lists(st.tuples(words, st.none() | words, words.filter(bool)), min_size=2, max_size=8, unique=True))
def test_task_scope_and_key_are_told_apart(calls: list[tuple[str, str | None, str]]) -> None:
    digests = {
        identify(task_name, RULES[0], (1,), {}, task_id="id-1", scope=scope, idempotency_key=key).digest
        for task_name, scope, key in calls
    }
    assert len(digests) == len(calls)


SCRIPT = """
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID
from django_idempotent_tasks.identity.arguments import Binder
from django_idempotent_tasks.identity.key import TASK_ID, KeyRules, identify

def task(a, b=(1.0, "é"), *rest, c=frozenset({"x", "y", 1, 2.5}), **extra): ...

def digests(rules, *args, key=..., **kwargs):
    call = {} if key is ... else {"idempotency_key": key}
    found = identify("shop.task", rules, args, kwargs, task_id="id-1", scope="t", **call)
    return found.digest.hex, found.fingerprint and found.fingerprint.hex

rules = KeyRules(binder=Binder(task, skip_first=False))
print(digests(rules, 7, zz={"b": 1, "a": [0.1, 1e22, 1e-7, 2**70]}))
moment = datetime(2024, 1, 2, tzinfo=UTC)
print(digests(rules, Decimal("1.50"), b"\\xff", UUID(int=1), c=date(2024, 1, 2), d=moment))
print(digests(rules, 7, key={"x", "y", "z", frozenset({1, 2, 3}), "\\ud800\\0"}))
print(digests(KeyRules(binder=rules.binder, key=TASK_ID, fingerprint=("a", "missing")), 7))
"""

GOLDEN = """
('da77c497e6f14ea5a2851b56da9b93b7', None)
('04ec0dd1710c2d5cdb377d5eea2db9eb', None)
('89dc4c364206bbd727a01ab6932e1747', 'cce8209ef7e0170dbf9291daa0f3dc6f')
('46c55b2fa3c4d4e4b4e2dfaa31070373', 'a878a8142ab4ab731b231accfbdc2cb3')
"""


def run(python: str, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    root = Path(django_idempotent_tasks.__file__).parents[1]
    path = os.pathsep.join([str(root), sysconfig.get_path("purelib")])
    kept = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run(
        [python, "-c", script],
        env={**kept, "PYTHONPATH": path, **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_digests_are_the_same_in_every_process_and_never_change(seed: str) -> None:
    done = run(sys.executable, SCRIPT, PYTHONHASHSEED=seed)
    assert done.stdout.strip() == GOLDEN.strip(), done.stderr


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_digests_are_the_same_on_every_python(version: str) -> None:
    siblings = Path(sys.base_prefix).parent.glob(f"{version}*/bin/python{version}")
    python = next(map(str, siblings), None) or shutil.which(f"python{version}")
    # Our dependencies' pure Python serves the other interpreter too, where their versions allow it.
    if python is None or run(python, "import django.utils.functional, kombu.utils.json").returncode:
        pytest.skip(f"no usable python{version} here")
    done = run(python, SCRIPT)
    assert done.stdout.strip() == GOLDEN.strip(), done.stderr


def test_identifying_needs_no_settings_and_models_are_rows() -> None:
    script = """
from django.conf import settings
from django_idempotent_tasks.identity.canonical import canonical_json
assert canonical_json([1.0], where="key") == "[1]"
assert not settings.configured
settings.configure(INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"])
import django; django.setup()
from django.contrib.auth.models import User
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy
class Staff(User):
    class Meta:
        proxy = True
        app_label = "auth"
for value in (User(pk=7), Staff(pk=7), SimpleLazyObject(lambda: User(pk=7)), gettext_lazy("x"), User()):
    print(canonical_json(value, where="key"))
"""
    done = run(sys.executable, script)
    row = '{"!model":["auth.User",7]}'
    assert done.stdout.splitlines() == [row, row, row, '"x"'], done.stderr
    assert "InvalidKey: key: an unsaved auth.User has no primary key" in done.stderr
