"""Log records of a body, and of this package about a key, have the key and the attempt as fields."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks.log import KeyFields
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

FIELDS = ("idempotency.key", "task_id", "token", "attempt")
projects = logging.getLogger("shop")


class Kept(logging.Handler):
    """Keeps the fields of each record, as a JSON formatter would write them."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(KeyFields())
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = {name: record.__dict__[name] for name in FIELDS if name in record.__dict__}
        self.lines.append({"message": record.getMessage(), **json.loads(json.dumps(fields))})


@pytest.fixture
def kept() -> Iterator[Kept]:
    """A handler of the project, as LOGGING sets one up."""
    handler = Kept()
    loggers = (projects, logging.getLogger("django_idempotent_tasks"))
    levels = [each.level for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(logging.INFO)
    yield handler
    for each, level in zip(loggers, levels, strict=True):
        each.removeHandler(handler)
        each.setLevel(level)


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_what_a_body_logs_names_its_key_and_its_attempt(
    till: Till, shop: Counter, kept: Kept, mode: str
) -> None:
    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> None:
        shop.sell(self)
        projects.info("sold", extra={"attempt": "mine"} if order == 8 else None)

    projects.info("before")
    till.deliver(sell, 7)
    till.deliver(sell, 8, id="B")
    fields = {"idempotency.key": "order=7", "task_id": "A", "token": 1, "attempt": 1}
    assert kept.lines[0] == {"message": "before"}
    assert kept.lines[1] == {"message": "sold", **fields}
    assert kept.lines[2]["attempt"] == "mine"


def test_what_is_logged_of_a_duplicate_names_the_call_that_was_refused(
    till: Till, shop: Counter, kept: Kept
) -> None:
    task = till.seller(shop)
    till.deliver(task, 7)
    till.deliver(task, 7, id="B")
    [line] = kept.lines
    assert "was refused as a duplicate" in line["message"]
    assert (line["idempotency.key"], line["task_id"]) == ("order=7", "B")


def test_this_packages_records_have_the_fields_on_any_handler(
    till: Till, shop: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self)
        logging.getLogger("django_idempotent_tasks").warning("inside")

    till.deliver(sell, 7)
    record = next(each for each in caplog.records if each.getMessage() == "inside")
    assert [record.__dict__[name] for name in FIELDS] == ["order=7", "A", 1, 1]


def test_a_sensitive_key_and_a_hostile_id_are_written_harmlessly(
    till: Till, shop: Counter, kept: Kept
) -> None:
    @till.guarded(mode="leased", sensitive=("order",))
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self)
        projects.info("sold")

    till.deliver(sell, 987654, id="A\nINJECTED")
    assert "987654" not in json.dumps(kept.lines)
    assert kept.lines[-1]["task_id"] == "A\\nINJECTED"
