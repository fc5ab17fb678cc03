"""Whoever looks and asks: nothing is shown for which this person lacks the permission."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from django_idempotent_tasks.models import FailedJob
from django_idempotent_tasks.states import Category, Reason, State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.admin.conftest import APP, Person
from tests.support.keys import Keys
from tests.support.uploads import Batches

pytestmark = pytest.mark.django_db

#: What a task put into its key, its arguments, its result, a step's value, its error and its traceback.
KEY, ARGUMENT, RESULT, VALUE, ERROR, TRACE = "k3y-value", "argum3nt", "r3sult", "st3p", "m3ssage", "fram3"
NEEDS = {
    KEY: "view_payload",
    ARGUMENT: "view_payload",
    RESULT: "view_payload",
    VALUE: "view_payload",
    ERROR: "view_traceback",
    TRACE: "view_traceback",
}
MESSAGE = f'{{"v": 1, "args": ["{ARGUMENT}"], "kwargs": {{}}, "options": {{}}}}'


@pytest.fixture
def rows(keys: Keys) -> dict[str, list[Any]]:
    """Keys in every state, by the model whose page shows them."""

    def call(number: int) -> Any:
        return keys.call(f"call-{number}", key_text=f"order={KEY}, kind=7", message=MESSAGE)

    failure = a_failure(description=ERROR, traceback=TRACE)
    batches = Batches()
    batch, _calls = batches.of("f..", key_text=f"upload={KEY}")
    batches.failing(batch.id, 0, Category.FATAL, description=ERROR, value=f'"{ARGUMENT}"')
    failed, review = keys.claimed(call(1)), keys.claimed(call(2))
    for claim in (failed, review):
        assert keys.store().keep_step(claim, "plan", value=f'"{VALUE}"', elapsed=1.0)
    keys.fail(failed, state=State.FAILED, reason=Reason.RETRIES_USED_UP, failure=failure)
    keys.fail(review, state=State.REVIEW, reason=Reason.IN_DOUBT, failure=failure)
    running, done = keys.claimed(call(3)), keys.completed(keys.claimed(call(4)), result=f'"{RESULT}"')
    every = [claim.digest for claim in (failed, review, running, done)]
    jobs = list(FailedJob.objects.values_list("pk", flat=True))
    return {"idempotencykey": every, "deadletter": every[:2], "failedjob": jobs, "batch": [batch.pk]}


def addresses(rows: dict[str, list[Any]]) -> Iterator[str]:
    """Every page of ours."""
    for model, model_admin in admin.site._registry.items():
        if model._meta.app_label == APP:
            known = [[pk] for pk in rows.get(str(model._meta.model_name), [])]
            for pattern in model_admin.get_urls():
                if pattern.name is not None:
                    for values in known if pattern.pattern.converters else [[]]:
                        yield reverse(f"admin:{pattern.name}", args=values)


def text_of(response: Any) -> str:
    """What a client gets, also of a file."""
    return (b"".join(response.streaming_content) if response.streaming else response.content).decode()


def shown_without_permission(client: Client, url: str, may: set[str]) -> list[str]:
    """What a page shows by GET or after a POST, and this person may not see."""
    found = []
    for response in (client.get(url), client.post(url, {"reason": "x", "seen": "1"})):
        text = text_of(response) + str(response.headers)
        found += [f"{url}: {secret}" for secret, name in NEEDS.items() if secret in text and name not in may]
    return found


MODELS = [*apps.get_app_config(APP).get_models()]
OWN = [f"view_{model._meta.model_name}" for model in MODELS if "view" in model._meta.default_permissions]
OWN += [str(name) for model in MODELS for name, *_words in model._meta.permissions]
VIEWS = {name for name in OWN if name.startswith("view_") and name not in NEEDS.values()}
ROLES = [
    set[str](),
    *({name} for name in sorted(OWN)),
    *(VIEWS | {name} for name in sorted(set(OWN) - VIEWS)),
    {*OWN},
]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: f"{len(role)} {min(role, default='')}")
def test_no_page_shows_what_its_permission_is_missing_for(
    role: set[str], person: Person, rows: dict[str, list[Any]]
) -> None:
    client = person(*role)
    found = [each for url in addresses(rows) for each in shown_without_permission(client, url, role)]
    assert not found, "\n".join(found)


def test_who_may_see_everything_does(person: Person, rows: dict[str, list[Any]]) -> None:
    client = person(*OWN)
    text = "".join(text_of(client.get(url)) for url in addresses(rows))
    assert [secret for secret in NEEDS if secret not in text] == []


def test_the_log_of_the_admin_names_no_value(root: Client, rows: dict[str, list[Any]]) -> None:
    url = reverse(f"admin:{APP}_deadletter_discard", args=[rows["deadletter"][0]])
    seen = root.get(url).context["form"].initial["seen"]
    root.post(url, {"reason": "no use", "seen": seen})
    entry = LogEntry.objects.get()
    assert KEY not in entry.object_repr + entry.change_message
