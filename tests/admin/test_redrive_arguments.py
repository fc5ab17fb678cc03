"""A redrive with other arguments: filled in with the present ones, checked, silent about what is hidden."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from celery import current_app
from django.test import Client

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.values import Call, Claim
from tests.admin.conftest import Person, logged, page, seen
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
TASK = "shop.tasks.refund_card"
WHY = "the amount was wrong"


@pytest.fixture(autouse=True)
def refund() -> Any:
    """A guarded task that this process knows."""

    def body(order_id: int, amount: str, note: str = "") -> None: ...

    yield current_app.task(base=IdempotentTask, name=TASK, key="order_id", shared=False)(body)
    current_app.tasks.pop(TASK)


def dead(keys: Keys, *args: object, task: str = TASK, **kwargs: object) -> Claim:
    """A dead letter of a call with these arguments."""
    message = json.dumps({"v": 1, "args": args, "kwargs": kwargs, "options": {}})
    claim = keys.claimed(Call(Identity(uuid4(), None, "order_id=7", None), task, str(uuid4()), message))
    assert keys.fail(claim)
    return claim


def url_of(claim: Claim) -> str:
    return page("deadletter", "redrive", claim.digest)


def form(client: Client, claim: Claim) -> Any:
    return client.get(url_of(claim)).context["form"]


def filled(found: Any) -> dict[str, str]:
    """What the fields of the arguments hold, by their labels."""
    return {str(each.label): each.value() for each in found.argument_fields}


def send(client: Client, claim: Claim, **typed: str) -> Any:
    """Send the form as it was filled in, but for these arguments."""
    found = form(client, claim)
    values = {each.name: typed.get(str(each.label), each.value()) for each in found.argument_fields}
    return client.post(url_of(claim), {"reason": WHY, "seen": found.initial["seen"], **values}, follow=True)


def stored(keys: Keys, claim: Claim) -> tuple[Any, Any]:
    message = json.loads(str(keys.row(claim).message))
    return message["args"], message["kwargs"]


def test_the_form_has_the_present_arguments_by_name_and_changes_what_was_changed(
    root: Client, keys: Keys
) -> None:
    claim = dead(keys, 7, amount="9,90 €")
    assert filled(form(root, claim)) == {"order_id": "7", "amount": '"9,90 €"', "note": ""}
    send(root, claim, amount='"9.90"', note='"by hand"')
    assert stored(keys, claim) == ([7], {"amount": "9.90", "note": "by hand"})
    assert logged() == [f"Redrive with other arguments (amount, note): {WHY}"]
    same = dead(keys, 7, amount="1")
    send(root, same)
    assert stored(keys, same) == ([7], {"amount": "1"})
    assert logged()[0] == f"Redrive: {WHY}"


@pytest.mark.parametrize(
    ("typed", "field", "problem"),
    [
        ({"order_id": ""}, "order_id", "missing 1 required positional argument"),
        ({"amount": "9.90 EUR"}, "amount", "This is not JSON"),
        ({"amount": "NaN"}, "amount", "NaN is no number in JSON"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_where_they_were_typed(
    root: Client, keys: Keys, typed: dict[str, str], field: str, problem: str
) -> None:
    claim = dead(keys, 7, amount="9.90")
    with keys.untouched(claim):
        told = send(root, claim, **typed)
    assert told.status_code == 400
    (errors,) = [each.errors for each in told.context["form"].argument_fields if each.label == field]
    assert problem in str(errors)


def test_an_argument_that_was_renamed_is_seen_and_can_be_moved(root: Client, keys: Keys) -> None:
    claim = dead(keys, order=7, amount="9.90")
    found = form(root, claim)
    assert filled(found) == {"order": "7", "amount": '"9.90"', "order_id": "", "note": ""}
    assert "no parameter of this name" in str(found.argument_fields[0].help_text)
    assert "unexpected keyword argument" in str(send(root, claim, order_id="7").context["form"].errors)
    send(root, claim, order="", order_id="7")
    assert stored(keys, claim) == ([], {"amount": "9.90", "order_id": 7})


def test_a_value_that_redact_hides_is_neither_shown_nor_lost_nor_replaced_by_its_mask(
    root: Client, keys: Keys, settings: Any
) -> None:
    settings.IDEMPOTENT_TASKS = {"REDACT": masked}
    claim = dead(keys, 7, amount="s3cret")
    html = root.get(url_of(claim)).content.decode()
    assert "s3cret" not in html
    assert "leave this empty to keep it" in html
    assert filled(form(root, claim)) == {"order_id": "7", "amount": "", "note": ""}
    send(root, claim, order_id="8")
    assert stored(keys, claim) == ([8], {"amount": "s3cret"})
    replaced = dead(keys, 7, amount="s3cret")
    send(root, replaced, amount='"9.90"')
    assert stored(keys, replaced) == ([7], {"amount": "9.90"})
    unknown = dead(keys, 7, amount="s3cret", task="shop.gone")
    assert "s3cret" not in root.get(url_of(unknown)).content.decode()


def masked(_task: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A project's ``REDACT``."""
    return {name: "***" if name == "amount" else value for name, value in arguments.items()}


def test_who_may_edit_but_not_see_arguments_is_shown_none(person: Person, keys: Keys) -> None:
    claim = dead(keys, 7, amount="s3cret")
    ann = person("view_deadletter", "redrive_deadletter", "edit_arguments")
    assert set(filled(form(ann, claim)).values()) == {""}
    assert "s3cret" not in ann.get(url_of(claim)).content.decode()
    send(ann, claim, order_id="8")
    assert stored(keys, claim) == ([8], {"amount": "s3cret"})
    bob = person("view_deadletter", "view_payload", "redrive_deadletter", name="bob")
    assert form(bob, dead(keys, 7, amount="1")).argument_fields == []


def test_without_names_the_call_is_one_text(root: Client, keys: Keys) -> None:
    claim = dead(keys, 7, amount="1", task="shop.gone")
    found = form(root, claim)
    assert json.loads(found["arguments"].value()) == {"args": [7], "kwargs": {"amount": "1"}}
    same = {"reason": WHY, "seen": seen(root, url_of(claim)), "arguments": found["arguments"].value()}
    root.post(url_of(claim), same)
    assert logged() == [f"Redrive: {WHY}"]
    extra = dead(keys, 7, "1", "note", "too many")
    assert "arguments" in form(root, extra).fields


def test_a_confirmation_names_the_task_the_error_and_the_count(root: Client, keys: Keys) -> None:
    claims = [dead(keys, number, amount="1") for number in range(3)]
    assert (TASK in (html := root.get(url_of(claims[0])).content.decode()), "ValueError" in html) == (
        True,
        True,
    )
    picked = {"action": "redrive_picked", "_selected_action": [str(each.digest) for each in claims]}
    for asked in (
        root.post(page("deadletter"), picked, follow=True),
        root.get(page("deadletter", "discard_many")),
    ):
        facts = dict(asked.context["question"].facts)
        assert facts["how many"] == "3 dead letters"
        assert facts["of these"] == f"3 × {TASK}: builtins.ValueError"
