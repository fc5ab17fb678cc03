"""``REDACT``: what it takes away is shown nowhere, and where it fails nothing is."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from celery import current_app
from django.core.checks import run_checks

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.messages.message import Message, pretty
from django_idempotent_tasks.operations.redaction import arguments_of, call_of, call_text


def pay(order: int, card: str, *rest: int) -> None: ...


def plain(_self: Any, order: int, card: str) -> None: ...


@pytest.fixture(autouse=True)
def _tasks() -> Iterator[None]:
    """A guarded task and a plain one, known to this process."""
    app: Any = current_app
    app.task(pay, name="redacted.pay", base=IdempotentTask, key="order", shared=False)
    app.task(plain, name="redacted.plain", bind=True, shared=False)
    app.finalize()
    yield
    for name in ("redacted.pay", "redacted.plain"):
        app.tasks.pop(name)


def without_card(task: str, arguments: dict[str, Any]) -> dict[str, Any]:
    assert task.startswith("redacted.")
    return {**arguments, "card": "***"}


def broken(_task: str, _arguments: dict[str, Any]) -> dict[str, Any]:
    raise ZeroDivisionError


@pytest.mark.parametrize("given", [without_card, f"{__name__}.without_card"], ids=["function", "path"])
@pytest.mark.parametrize("task", ["redacted.pay", "redacted.plain"])
def test_arguments_are_redacted_by_name_however_they_were_passed(
    settings: Any, task: str, given: object
) -> None:
    settings.IDEMPOTENT_TASKS = {"REDACT": given}
    for args, kwargs in (([7, "4242"], {}), ([7], {"card": "4242"}), ([], {"order": 7, "card": "4242"})):
        assert arguments_of(task, args, kwargs) == {"order": 7, "card": "***"}


def test_what_has_no_name_goes_by_its_place() -> None:
    assert arguments_of("redacted.pay", [7, "4242", 1, 2], {}) == {
        "order": 7,
        "card": "4242",
        "rest": 1,
        "3": 2,
    }
    assert arguments_of("unknown", [7], {"x": 1}) == {"0": 7, "x": 1}


def test_where_redact_raises_nothing_is_shown(settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"REDACT": broken}
    assert arguments_of("redacted.pay", [7, "4242"], {}) == {"not shown": "REDACT raised ZeroDivisionError"}


def test_a_message_is_shown_without_the_calls_that_it_carries(settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"REDACT": without_card}
    link = {"task": "other", "args": ["4242"]}
    content = {
        "v": 1,
        "args": [12345678901234567890, "4242"],
        "kwargs": {},
        "options": {"queue": "slow", "link": [link]},
    }
    text = json.dumps(content)
    assert call_of("redacted.pay", text) == {
        "arguments": {"order": 12345678901234567890, "card": "***"},
        "options": {"queue": "slow"},
    }
    assert "4242" not in call_text("redacted.pay", text)
    assert call_text("redacted.pay", None) == "none"
    assert call_text("redacted.pay", "{}") == "not readable"


def test_a_message_that_cannot_be_read_is_quoted_nowhere() -> None:
    content = {"v": 1, "args": [{"__type__": "date", "__value__": "4242"}], "kwargs": {}, "options": {}}
    with pytest.raises(ValueError, match="cannot be read") as caught:
        Message.decode("redacted.pay", json.dumps(content))
    assert "4242" not in "".join(traceback.format_exception(caught.value))


def test_what_is_nested_deeply_is_shown_in_bounded_space() -> None:
    deep: Any = "4242"
    for _ in range(200):
        deep = [deep, *[7] * 200]
    text = json.dumps({"v": 1, "args": [deep], "kwargs": {}, "options": {}})
    assert len(json.dumps(deep, indent=2)) > 10 * len(text) > 1_000_000
    for shown in (call_text("redacted.pay", text), pretty(text)):
        assert len(shown) < 300_000
        assert shown.endswith("too long to be shown.")


def test_a_wrong_redact_is_an_error_that_says_what_to_write(settings: Any) -> None:
    for wrong in (7, "no.such.function"):
        settings.IDEMPOTENT_TASKS = {"REDACT": wrong}
        found = [str(message) for message in run_checks() if message.id == "django_idempotent_tasks.E002"]
        assert len(found) == 1
        assert "REDACT" in found[0]
