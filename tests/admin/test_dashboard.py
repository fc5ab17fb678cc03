"""The dashboard: what needs a person first, then what goes on, from a bounded number of rows."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils.timezone import localtime

from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import COUNTED, HourlyCount, Leader
from django_idempotent_tasks.states import Category, State
from tests.admin.conftest import APP, Person, at_most, page
from tests.admin.test_dead_letters import dead
from tests.admin.test_keys import hostile_key, inert
from tests.support.fleet import held, worker
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
URL = "/admin/django_idempotent_tasks/dashboard/"


def test_what_needs_a_person_comes_first_and_leads_to_its_list(root: Client, keys: Keys) -> None:
    dead(keys)
    dead(keys, state=State.REVIEW)
    keys.claimed(lease=60)
    with shifted(180):
        shown = root.get(URL)
    found = {each.text: each.url for each in shown.context["findings"]}
    assert {each.look for each in shown.context["findings"]} == {"bad", "odd"}
    assert sorted(found.values()) == [
        "",  # nobody leads the sweeper
        f"{page('deadletter')}?state=4",
        f"{page('deadletter')}?state=5",
        f"{page('idempotencykey')}?state=2",
    ]
    html = shown.content.decode()
    assert html.index("Needs a person") < html.index("dead letters</span>") < html.index("Running")
    assert "dead-letters list" not in html, "a link leads there"
    assert all(root.get(url).status_code == 200 for url in found.values() if url)


def test_what_runs_is_told_with_its_time_and_its_lease(root: Client, keys: Keys) -> None:
    claim = held(keys, worker(keys), pid=4711)
    hostile_key(keys)
    with shifted(20):
        shown = root.get(URL)
    inert(shown.content.decode())
    (row,) = [each for each in shown.context["running"] if each["holder"].startswith("mail@host, pid 4711")]
    assert re.fullmatch(r"[2-4]\d s", row["elapsed"])
    assert row["lease"].endswith("s left")
    assert row["url"] == page("idempotencykey", "change", claim.digest)


@pytest.mark.usefixtures("early_in_a_minute")
def test_charts_and_tables_are_of_hourly_counts(root: Client, keys: Keys) -> None:
    now = database_now(keys.store()).replace(minute=0, second=0, microsecond=0)
    for hours, task in ((1, "a"), (1, "b"), (5, "a"), (100, "a"), (400, "a"), (1, COUNTED)):
        numbers = {"created": 9, "succeeded": 5, "failed": 2, "duplicates": 1, "crashes": 1}
        HourlyCount.objects.create(
            hour=now - timedelta(hours=hours), task=task, **(numbers if task else dict.fromkeys(numbers, 0))
        )
    shown = root.get(URL)
    assert dict(shown.context["totals"])["succeeded"] == ["0", "10", "15", "20"]
    _minutes, day, week = shown.context["charts"]
    assert (len(day.bars), len(week.bars)) == (2 * 2, 2 * 3)
    assert day.summary == "15 succeeded, 6 failed; at most 14 in an hour"
    assert "style=" not in shown.content.decode().partition("idem-page")[2].partition("</main>")[0]


@pytest.mark.usefixtures("early_in_a_minute")
def test_the_hour_that_is_not_over_is_counted_live(root: Client, keys: Keys) -> None:
    dead(keys)
    claim = keys.claimed()
    assert keys.complete(claim)
    shown = root.get(URL)
    assert [numbers for _name, numbers in shown.context["totals"]] == [
        [number, "0", number, number] for number in ("1", "1", "0", "0")
    ]
    minutes, day, week = shown.context["charts"]
    hour = f"{localtime(keys.now(claim)):%H}:00"
    assert [bar.title for bar in day.bars] == [f"{hour}: 1 succeeded", f"{hour}: 1 failed"]
    assert minutes.summary == "1 succeeded, 1 failed; at most 2 in a minute"
    assert len(week.bars) == 2
    assert {tile.label: tile.value for tile in shown.context["tiles"]}["done this hour"] == "1"
    assert "only this hour is shown" in shown.content.decode()


def test_an_expected_end_is_counted_as_done_and_is_no_failure(root: Client, keys: Keys) -> None:
    dead(keys, category=Category.EXPECTED, signature="x" * 16)
    shown = root.get(URL)
    numbers = dict(shown.context["totals"])
    assert (numbers["succeeded"][0], numbers["failed"][0]) == ("1", "0")
    assert shown.context["charts"][0].summary == "1 succeeded, 0 failed; at most 1 in a minute"
    (line,) = shown.context["tasks"]
    assert (str(line["runs"]), str(line["failed"]), line["last"]) == ("1", "0", "-")


def test_discarded_ones_are_counted_apart_and_wait_for_nobody(root: Client, keys: Keys) -> None:
    dead(keys)
    keys.in_columns(dead(keys), discarded_at=keys.now(dead(keys)))
    tiles = {tile.label: tile for tile in root.get(URL).context["numbers"]}
    assert (tiles["failed, to be decided"].value, tiles["failed and discarded"].value) == ("2", "1")
    assert len(root.get(tiles["failed and discarded"].url).context["cl"].result_list) == 1


def test_it_is_for_those_who_may_see_keys_and_leads_only_where_they_may_go(
    person: Person, keys: Keys
) -> None:
    dead(keys)
    assert person("view_hourlycount").get(URL).status_code == 403
    shown = person("view_idempotencykey", name="eve").get(URL)
    assert [each.url for each in shown.context["findings"]] == ["", ""]


def test_it_takes_a_bounded_number_of_statements(root: Client, keys: Keys) -> None:
    for _ in range(30):
        keys.claimed()
    root.get(URL)
    with at_most(46):
        root.get(URL)


def test_tasks_workers_and_queues_are_told_with_what_each_does(root: Client, keys: Keys) -> None:
    slow = keys.claimed()
    keys.in_columns(slow, started_at=keys.now(slow) - timedelta(seconds=20))
    assert keys.complete(slow)
    dead(keys)
    claim = held(keys, worker(keys), pid=4711)
    for queue, number in (("mail", 2), ("nowhere", 1)):
        for _ in range(number):
            message = f'{{"v": 1, "args": [], "kwargs": {{}}, "options": {{"queue": "{queue}"}}}}'
            keys.reserved(keys.call(message=message), wait=9000)
    shown = root.get(URL).context
    (line,) = shown["tasks"]
    assert (line["runs"].number, line["failed"].number) == (2, 1)
    assert line["run"].endswith(" s")
    assert line["last"] != "-"
    (row,) = shown["workers"]
    assert (row["name"], row["pid"], row["queues"]) == ("mail@host", "4700", "celery, mail")
    assert [run["url"] for run in row["runs"]] == [page("idempotencykey", "change", claim.digest)]
    queues = [(each["name"], each["waiting"].number, each["takes"]) for each in shown["queues"]]
    assert [each[:2] for each in queues] == [("mail", 2), ("nowhere", 1), ("celery", 0)]
    assert [("idem-is-bad" in takes, "1 worker<" in takes) for _name, _number, takes in queues] == [
        (False, True), (True, False), (False, True),
    ]  # fmt: skip


def test_its_script_reads_the_content_alone_with_the_same_permission(root: Client, person: Person) -> None:
    whole, part = (root.get(URL, query).content.decode() for query in ({}, {"part": "1"}))
    assert "dashboard.js" in whole
    assert "<html" not in part
    assert part.lstrip().startswith("<section")
    assert "Throughput" in part
    assert person("view_hourlycount").get(URL, {"part": "1"}).status_code == 403
    assert Client().get(URL, {"part": "1"}).status_code == 302


def test_the_index_begins_with_the_dashboard_and_ends_with_internals(root: Client, keys: Keys) -> None:
    dead(keys)
    for start in ("/admin/", "/admin/django_idempotent_tasks/"):
        (app,) = [each for each in root.get(start).context["app_list"] if each["app_label"] == APP]
        names = [entry["object_name"] for entry in app["models"]]
        assert names[:4] == ["Dashboard", "IdempotencyKey", "DeadLetter", "FailedJob"]
        assert names[-2:] == ["AnsweredCall", "HourlyCount"]
        assert app["models"][0]["name"] == "Dashboard (2 need a person)"
    assert "1 dead letter failed for good" in root.get("/admin/django_idempotent_tasks/").content.decode()
    assert "need a person" not in root.get(page("idempotencykey")).content.decode(), "lists read no status"


def test_the_index_reads_no_status_for_who_may_not_see_it_and_answers_without_a_ledger(
    root: Client, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = person("view_hourlycount")
    with at_most(6):
        assert other.get("/admin/").status_code == 200
    monkeypatch.setattr(Leader._meta, "db_table", "not_migrated")
    shown = root.get("/admin/")
    assert shown.status_code == 200
    assert "need a person" not in shown.content.decode()


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
