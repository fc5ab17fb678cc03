"""The value of a sensitive argument stands in no row, no description of a message and no result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_idempotent_tasks.exceptions import DuplicateTask, ResultNotStored
from django_idempotent_tasks.models import FailedJob, IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

PIN = "839214"


@pytest.fixture(params=["leased", "atomic"])
def mode(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def written(model: Any, alias: str) -> str:
    """Every column of every row."""
    return json.dumps([*model.objects.using(alias).values()], default=str)


@pytest.mark.parametrize("by_name", [False, True])
def test_a_failure_that_quotes_the_value_is_recorded_without_it(
    till: Till, shop: Counter, mode: str, *, by_name: bool
) -> None:
    @till.guarded(mode=mode, sensitive=("pin",))
    def unlock(self: Any, order: int, pin: str) -> None:  # noqa: ARG001
        try:
            int(f"x{pin}")
        except ValueError as error:
            msg = f"wrong: {pin}"
            raise KeyError(msg) from error

    if by_name:
        till.deliver(unlock, 7, kwargs={"pin": PIN})
    else:
        till.deliver(unlock, 7, PIN)
    assert shop.state is State.FAILED
    rows = written(IdempotencyKey, shop.alias) + written(FailedJob, shop.alias)
    assert PIN not in rows
    assert "wrong: (hidden)" in rows


def test_a_result_that_quotes_the_value_is_not_stored(till: Till, shop: Counter, mode: str) -> None:
    @till.guarded(mode=mode, sensitive=("pin",))
    def unlock(self: Any, order: int, pin: str) -> dict[str, Any]:  # noqa: ARG001
        return {"order": order, "opened with": [pin]}

    assert till.deliver(unlock, 7, PIN).result == {"order": 7, "opened with": [PIN]}
    assert (shop.state, shop.row.result, shop.row.reason) == (
        State.SUCCEEDED,
        None,
        Reason.RESULT_NOT_STORED,
    )
    assert isinstance(till.deliver(unlock, 7, PIN).error, ResultNotStored)


def test_messages_describe_the_arguments_without_the_value(till: Till, shop: Counter) -> None:
    @till.guarded(mode="leased", sensitive=("pin",), max_retries=2)
    def unlock(self: Any, order: int, pin: str) -> None:  # noqa: ARG001
        raise self.retry(countdown=0)

    unlock.apply_async((7,), {"pin": PIN})  # as it is sent first
    till.deliver(unlock, 7, PIN, id="B")  # its retry
    shop.put(state=State.RUNNING, open_at="2999-01-01T00:00Z", owner="somebody:1:else")
    till.deliver(unlock, 7, PIN, id="B")  # the copy that comes back later
    said = [(sent.options["argsrepr"], sent.options["kwargsrepr"]) for sent in till.sent]
    positional = ("(7, '(hidden)')", "{}")
    assert said == [("(7,)", "{'pin': '(hidden)'}"), positional, positional]


def test_what_a_call_says_of_its_arguments_itself_is_kept(till: Till, shop: Counter) -> None:  # noqa: ARG001
    @till.guarded(mode="leased", sensitive=("pin",))
    def unlock(self: Any, order: int, pin: str) -> None: ...

    unlock.apply_async((7, PIN), argsrepr="(7, a PIN)")
    assert till.sent[0].options["argsrepr"] == "(7, a PIN)"


def redact(_task: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "order": "***"}


def test_a_key_made_of_arguments_is_redacted_wherever_it_is_written(
    till: Till, shop: Counter, mode: str, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": shop.alias, "REDACT": redact}
    task = till.seller(shop, mode=mode, on_duplicate="raise")
    with caplog.at_level("INFO", "django_idempotent_tasks"):
        till.deliver(task, 839214)
        duplicate = till.deliver(task, 839214, id="B").error
    assert isinstance(duplicate, DuplicateTask)
    assert shop.row.key_text == "order=***"
    assert PIN not in str(duplicate) + caplog.text
