"""Refused calls by scope: counted by tenant, in bounds, for whoever may see them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from django_idempotent_tasks.admin import refusals
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import DuplicateAttempt
from tests.admin.conftest import HOSTILE, Person, at_most, page
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db


@pytest.fixture(name="url")
def _url() -> str:
    return reverse("admin:django_idempotent_tasks_refusals")


def refuse(keys: Keys, scope: str | None, *, times: int = 1, reason: str = "in_progress") -> None:
    """Calls of one key that are refused now."""
    call = keys.call(scope=scope)
    for _ in range(times):
        keys.store().record_duplicate(call, place="sender", reason=reason)


def listed(client: Client, url: str, **query: Any) -> list[tuple[str, int, list[int]]]:
    """The lines of the page."""
    return [(each.scope, each.total, each.numbers) for each in client.get(url, query).context["lines"]]


def test_they_are_counted_by_scope_and_reason_the_most_first(root: Client, keys: Keys, url: str) -> None:
    refuse(keys, "north", times=2)
    refuse(keys, None)
    refuse(keys, "south", times=3)
    refuse(keys, "south", reason="already_completed")
    with at_most(8):
        assert listed(root, url) == [
            ("south", 4, [3, 1, 0, 0]),
            ("north", 2, [2, 0, 0, 0]),
            ("-", 1, [1, 0, 0, 0]),
        ]
    html = root.get(page("duplicateattempt")).content.decode()
    assert url in html
    assert "?scope=south" in root.get(url).content.decode()


def test_they_are_counted_since_a_time(root: Client, keys: Keys, url: str) -> None:
    refuse(keys, "north")
    with shifted(3 * 3600):
        refuse(keys, "south")
        assert [line[0] for line in listed(root, url, since="1h")] == ["south"]
        for since in ("24h", "7d", "", "nonsense"):
            assert sorted(line[0] for line in listed(root, url, since=since)) == ["north", "south"]


def test_only_the_newest_are_looked_at_and_only_the_first_scopes_shown(
    root: Client, keys: Keys, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for scope in ("old", "north", "south"):
        refuse(keys, scope)
    monkeypatch.setattr(refusals, "WINDOW", 2)
    assert sorted(line[0] for line in listed(root, url)) == ["north", "south"]
    monkeypatch.setattr(refusals, "SHOWN", 1)
    shown = root.get(url)
    assert (len(shown.context["lines"]), shown.context["has_more"]) == (1, True)
    assert "There are more" in shown.content.decode()


def test_without_any_it_says_so_and_hostile_scopes_are_inert(root: Client, keys: Keys, url: str) -> None:
    assert "No call was refused." in root.get(url).content.decode()
    refuse(keys, HOSTILE)
    html = root.get(url).content.decode()
    assert "<script>alert" not in html
    assert "\u202e" not in html
    address = root.get(url).context["lines"][0].url
    assert len(root.get(address).context["cl"].result_list) == DuplicateAttempt.objects.count() == 1


def test_it_is_for_whoever_may_see_refused_calls(person: Person, url: str) -> None:
    assert person("view_idempotencykey").get(url).status_code == 403
    assert person("view_duplicateattempt", name="bob").get(url).status_code == 200
    assert Client().get(url).status_code == 302
