"""The dashboard: what needs a person first, then what goes on, from a bounded number of rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import COUNTED, HourlyCount
from django_idempotent_tasks.states import State
from tests.admin.conftest import Person, at_most, page
from tests.admin.test_dead_letters import dead
from tests.admin.test_keys import hostile_key, inert
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
URL = "/admin/django_idempotent_tasks/dashboard/"


def test_what_needs_a_person_comes_first_and_leads_to_its_list(root: Client, keys: Keys) -> None:
    dead(keys)
    dead(keys, state=State.REVIEW)
    keys.claimed(lease=60)
    with shifted(180):
        shown = root.get(URL)
    found = {each["text"]: each["url"] for each in shown.context["findings"]}
    assert sorted(found.values()) == [
        "",  # nobody leads the sweeper
        f"{page('deadletter')}?state=4",
        f"{page('deadletter')}?state=5",
        f"{page('idempotencykey')}?state=2",
    ]
    html = shown.content.decode()
    assert html.index("Needs a person") < html.index("Running")
    assert "dead-letters list" not in html, "a link leads there"
    assert all(root.get(url).status_code == 200 for url in found.values() if url)


def test_what_runs_is_told_with_its_time_and_its_lease(root: Client, keys: Keys) -> None:
    claim = keys.claimed(lease=60)
    hostile_key(keys)
    with shifted(20):
        shown = root.get(URL)
    inert(shown.content.decode())
    (row,) = [each for each in shown.context["running"] if each["holder"] == claim.owner]
    assert row["elapsed"] in {"20 s", "21 s"}
    assert row["lease"].endswith("s left")
    assert row["url"] == page("idempotencykey", "change", claim.digest)


def test_charts_and_tables_are_of_hourly_counts(root: Client, keys: Keys) -> None:
    now = database_now(keys.store()).replace(minute=0, second=0, microsecond=0)
    for hours, task in ((1, "a"), (1, "b"), (5, "a"), (100, "a"), (400, "a"), (1, COUNTED)):
        numbers = {"created": 9, "succeeded": 5, "failed": 2, "duplicates": 1, "crashes": 1}
        HourlyCount.objects.create(
            hour=now - timedelta(hours=hours), task=task, **(numbers if task else dict.fromkeys(numbers, 0))
        )
    shown = root.get(URL)
    assert dict(shown.context["totals"])["succeeded"] == ["0", "10", "15", "20"]
    day, week = shown.context["charts"][0], shown.context["charts"][4]
    assert (len(day.bars), len(week.bars)) == (2, 2)
    assert "15 in all, at most 10 in 1 h" in shown.content.decode()
    assert [row["task"] for row in shown.context["tasks"]] == ["a", "b"]
    assert "style=" not in shown.content.decode().partition("idem-page")[2].partition("</main>")[0]


def test_the_hour_that_is_not_over_is_counted_live(root: Client, keys: Keys) -> None:
    dead(keys)
    assert keys.complete(claim := keys.claimed())
    shown = root.get(URL)
    assert [numbers for _name, numbers in shown.context["totals"]] == [
        [number, "0", number, number] for number in ("1", "1", "0", "0")
    ]
    day, week = shown.context["charts"][0], shown.context["charts"][4]
    assert [bar.title for bar in day.bars] == [f"{keys.now(claim):%Y-%m-%d %H}:00: 1"]
    assert len(week.bars) == 1
    assert "only this hour is shown" in shown.content.decode()


def test_discarded_ones_are_counted_apart_and_wait_for_nobody(root: Client, keys: Keys) -> None:
    dead(keys)
    keys.in_columns(dead(keys), discarded_at=keys.now(dead(keys)))
    tiles = {tile.label: tile for tile in root.get(URL).context["tiles"]}
    assert (tiles["failed, to be decided"].value, tiles["failed and discarded"].value) == ("2", "1")
    assert len(root.get(tiles["failed and discarded"].url).context["cl"].result_list) == 1


def test_it_is_for_those_who_may_see_keys_and_leads_only_where_they_may_go(
    person: Person, keys: Keys
) -> None:
    dead(keys)
    assert person("view_hourlycount").get(URL).status_code == 403
    shown = person("view_idempotencykey", name="eve").get(URL)
    assert [each["url"] for each in shown.context["findings"]] == ["", ""]


def test_it_takes_a_bounded_number_of_statements(root: Client, keys: Keys) -> None:
    for _ in range(30):
        keys.claimed()
    root.get(URL)
    with at_most(21):
        root.get(URL)


def test_the_admin_s_first_page_and_menu_lead_those_to_it_who_may_see_keys(
    root: Client, person: Person
) -> None:
    for start in ("/admin/", page("hourlycount")):
        assert f'href="{URL}"' in root.get(start).content.decode()
    assert URL not in person("view_hourlycount").get("/admin/").content.decode()
    assert URL in person("view_idempotencykey", name="eve").get("/admin/").content.decode()


def test_the_index_of_the_app_leads_to_it(root: Client) -> None:
    assert URL in root.get("/admin/django_idempotent_tasks/").content.decode()
    assert URL in root.get(page("idempotencykey")).content.decode()
