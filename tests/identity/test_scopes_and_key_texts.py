"""A scope is a short text; a key's text is for people and shows no sensitive argument."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from django_idempotent_tasks.exceptions import InvalidKey
from django_idempotent_tasks.identity.key import stated_digest
from django_idempotent_tasks.identity.rules import ALL_ARGUMENTS, TASK_ID
from tests.identity.calls import charge, identity, open_ended


@pytest.mark.parametrize(
    ("value", "scope"),
    [(None, None), ("", ""), ("t", "t"), (42, "42"), (UUID(int=1), str(UUID(int=1))), ("x" * 120, "x" * 120)],
)
def test_a_scope_is_a_short_text_or_none(value: object, scope: str | None) -> None:
    found = {
        identity(charge, (value,), key="amount", scope="order_id"),
        identity(charge, (value,), key="amount", scope=lambda order_id: order_id),
        identity(charge, (value,), key="amount", scope=lambda _order: 1 / 0, call={"scope": value}),
    }
    assert [one.scope for one in found] == [scope]


@pytest.mark.parametrize(
    "value", [True, 1.0, b"t", ["t"], "x" * 121, 10**120, 10**5000, "a\0", "\ud800"], ids=range(9)
)
def test_another_scope_is_refused(value: object) -> None:
    with pytest.raises(InvalidKey, match=r"^argument 'order_id' of shop.charge: "):
        identity(charge, (value,), key="amount", scope="order_id")
    with pytest.raises(InvalidKey, match=r"^scope of shop.charge: "):
        identity(charge, (7,), call={"scope": value})


def test_a_scope_keyword_that_is_missing_is_no_scope() -> None:
    assert identity(open_ended, scope="tenant").scope is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "order_id=7, amount=9.90, currency=None"),
        ({"key": "order_id"}, "order_id=7"),
        ({"key": ("currency", "order_id")}, "currency=None, order_id=7"),
        ({"key": ()}, ""),
        ({"key": TASK_ID}, "id-1"),
        ({"key": lambda *args, **_kwargs: args}, 'key=[7,"9.90"]'),
        ({"call": {"idempotency_key": "evt\n1\0"}}, "evt\ufffd1\ufffd"),
        ({"call": {"idempotency_key": 12}}, "12"),
        ({"sensitive": frozenset({"amount"})}, "order_id=7, amount=(hidden), currency=None"),
        ({"sensitive": frozenset({"amount"}), "key": lambda *args, **_kwargs: args}, "(hidden) b9147eda"),
    ],
)
def test_the_key_text_is_for_people(options: dict[str, Any], text: str) -> None:
    assert identity(charge, (7, "9.90"), {"currency": None}, **options).key_text == text


def test_the_key_text_hides_sensitive_keywords_that_are_collected() -> None:
    for key in (ALL_ARGUMENTS, "extra", ("a", "card")):
        found = identity(open_ended, (1,), {"card": "4111"}, key=key, sensitive=frozenset({"card"}))
        assert "card=(hidden)" in found.key_text
        assert "4111" not in found.key_text
    assert identity(open_ended, (), key="card").key_text == "card=(missing)"


def test_the_key_text_is_short_and_keeps_both_ends() -> None:
    long = "\ud800" * 5000
    for options in ({"key": "order_id"}, {"call": {"idempotency_key": long + "9"}}, {}):
        found = identity(charge, (long + "9",), {"currency": {"a": [long] * 50}}, **options).key_text
        assert len(found) <= 255
        assert "…" in found
        assert found.isprintable()
    assert identity(charge, (long + "9",), key="order_id").key_text.endswith("9")


SECRET = frozenset({"amount"})


@pytest.mark.parametrize(
    "options",
    [
        {"key": "amount"},
        {"key": ("order_id", "amount")},
        {},
        {"key": lambda _order, amount, **_rest: amount},
        {"key": "order_id", "fingerprint": "amount"},
        {"key": "order_id", "fingerprint": ("amount", "order_id")},
        {"key": "order_id", "fingerprint": lambda _order, amount, **_rest: amount},
    ],
)
def test_who_has_the_table_cannot_try_the_values_of_a_sensitive_argument(options: dict[str, Any]) -> None:
    def found(**more: Any) -> Any:
        one = identity(charge, (7, "1234"), **{**options, **more})
        return one.fingerprint or one.digest

    plain, keyed = found(), found(sensitive=SECRET, hmac_key=lambda: "k" * 32)
    assert keyed != plain
    assert keyed != found(sensitive=SECRET, hmac_key=lambda: "other" * 8)
    assert keyed == found(sensitive=SECRET, hmac_key=lambda: "k" * 32)


def test_a_sensitive_keyword_that_is_collected_is_keyed_too() -> None:
    for key in ("card", "extra", ALL_ARGUMENTS):
        rules = {"key": key, "sensitive": frozenset({"card"})}
        one, other = (
            identity(open_ended, (), {"card": "4111"}, hmac_key=lambda secret=secret: secret, **rules).digest
            for secret in ("k" * 32, "l" * 32)
        )
        assert one != other


def test_a_stated_key_has_its_plain_digest_and_a_fingerprint_without_sensitive_arguments() -> None:
    rules = {"sensitive": SECRET, "hmac_key": lambda: "k" * 32, "call": {"idempotency_key": "evt-1"}}
    one, other = identity(charge, (7, "1234"), **rules), identity(charge, (7, "9999"), **rules)
    assert one == other
    assert one.digest == stated_digest("shop.charge", idempotency_key="evt-1")
    assert one.fingerprint != identity(charge, (8, "1234"), **rules).fingerprint
    collected = {**rules, "sensitive": frozenset({"card"})}
    assert identity(open_ended, (), {"card": "1"}, **collected) == identity(
        open_ended, (), {"card": "2"}, **collected
    )


def broken(_task: str, _arguments: dict[str, Any]) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("key", "redact", "text"),
    [
        ("order_id", lambda _task, given: {**given, "order_id": "***"}, "order_id=***"),
        (
            ("order_id", "currency"),
            lambda _task, given: {"currency": given["currency"]},
            "order_id=(hidden), currency=EUR",
        ),
        ("order_id", broken, "order_id=(hidden)"),
        ("order_id", lambda _task, _given: "nonsense", "order_id=(hidden)"),
        (lambda order_id, *_rest, **_named: order_id, lambda _task, given: given, "(hidden) "),
    ],
)
def test_a_derived_key_shows_what_the_project_lets_people_see(key: Any, redact: Any, text: str) -> None:
    found = identity(charge, (7,), key=key, redact=lambda: redact).key_text
    assert found.startswith(text)
    assert "7" not in found.removeprefix("(hidden) ")[:3]
