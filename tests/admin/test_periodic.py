"""Periodic runs: who leads, what comes next, what ran and was missed; a run by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("django_celery_beat")

from django.contrib.admin import AdminSite
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils.html import strip_tags
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, PeriodicTask

from django_idempotent_tasks.admin import periodic
from django_idempotent_tasks.beat.overview import ASIDE
from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import BeatCursor, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.admin.conftest import HOSTILE, Person, at_most, messages_of, page, seen
from tests.admin.test_keys import inert
from tests.beat.bench import Bench
from tests.beat.conftest import bench
from tests.beat.test_unreadable_entries import BAD

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["bench"]
LIST = page("beatcursor")
DASHBOARD = "/admin/django_idempotent_tasks/dashboard/"


@pytest.fixture
def shop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Two beats, and an entry that was sent twice."""
    monkeypatch.setattr("django_idempotent_tasks.admin.actions.run_now.app_or_default", lambda: bench.app)
    bench.now = database_now(get_store())
    bench.every(10, "often")
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    bench.tick(beat, after=10)
    bench.tick(bench.beat(), leads=False)
    return bench


def rows(client: Client) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in client.get(LIST).context["rows"]}


def test_the_page_tells_who_leads_what_comes_next_and_how_the_last_runs_ended(
    root: Client, shop: Bench
) -> None:
    last(shop).update(state=State.FAILED)
    shown = root.get(LIST)
    leads, stands_by = shown.context["leaders"]
    assert leads["words"].startswith("leads for ")
    assert stands_by["words"].startswith("stands by for ")
    (row,) = shown.context["rows"]
    assert row["schedule"] == "every 10 seconds"
    assert "(in " in row["next"]
    assert [strip_tags(each["outcome"]) for each in row["past"]] == ["failed", "sent"]
    assert row["past"][0]["url"] == page("idempotencykey", "change", last(shop).get().pk)
    assert root.get(row["past"][0]["url"]).status_code == 200
    with shifted(3600):
        shown = root.get(LIST)
    assert "overdue for 59 m" in shown.context["rows"][0]["next"]
    assert "nobody leads now" in shown.context["leaders"][0]["words"]


def often() -> PeriodicTask:
    found: PeriodicTask = PeriodicTask.objects.get(name="often")
    return found


def last(shop: Bench) -> Any:
    """The key of its last occurrence."""
    return IdempotencyKey.objects.filter(digest__in=[shop.cursor(often()).last_digest])


def test_entries_of_each_kind_are_shown_in_words_and_nothing_acts(root: Client, shop: Bench) -> None:
    shop.cron("0", "nightly", hour="3", enabled=False)
    clocked = ClockedSchedule.objects.create(clocked_time=shop.now + timedelta(days=1))
    shop.entry("at once", clocked=clocked, one_off=True)
    shop.every(60, HOSTILE, description=HOSTILE)
    BeatCursor.objects.filter(pk=often().pk).update(
        passed_over=1234, passed_over_at=shop.now, stranger_at=shop.now
    )
    inert(root.get(LIST).content.decode())
    found = rows(root)
    assert "03:00 AM" in found["nightly"]["schedule"]
    assert (found["nightly"]["next"], found["nightly"]["enabled"]) == ("-", False)
    assert found["at once"]["next"] == "known when a beat has read the entry"
    assert found["often"]["passed_over"].startswith("1,234, the last ")
    assert "an ordinary beat sent it as well" in found["often"]["stranger"]
    hostile = PeriodicTask.objects.get(name=HOSTILE)
    for name in ("change", "run_now", "history"):
        inert(root.get(page("beatcursor", name, hostile.pk)).content.decode())


def test_it_takes_a_bounded_number_of_statements_however_many_entries_there_are(
    root: Client, shop: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at_most(11):
        root.get(LIST)
    for number in range(15):
        shop.every(3600, f"entry {number:02}")
    monkeypatch.setattr(periodic, "PAGE", 10)
    with at_most(11):
        first = root.get(LIST)
    second = root.get(f"{LIST}?p={first.context['after']}")
    assert [len(each.context["rows"]) for each in (first, second)] == [10, 6]
    assert (second.context["after"], second.context["before"]) == (0, 1)
    for odd in ("0", "-1", "x", "٣", "99999999999"):
        assert root.get(LIST, {"p": odd}).status_code == 200


def test_it_is_for_those_who_may_see_it_and_runs_are_for_those_who_may_run(
    person: Person,
    shop: Bench,  # noqa: ARG001
) -> None:
    entry = often()
    assert person("view_idempotencykey").get(LIST).status_code == 403
    viewer = person("view_beatcursor", name="eve")
    assert rows(viewer)["often"]["run_url"] == ""
    assert rows(viewer)["often"]["past"][0]["url"] == ""
    assert viewer.get(page("beatcursor", "run_now", entry.pk)).status_code == 403
    assert viewer.post(LIST).status_code == 403
    assert person("run_periodic", name="bob").get(page("beatcursor", "run_now", entry.pk)).status_code == 403


def test_a_run_by_hand_is_confirmed_sent_and_logged(person: Person, shop: Bench) -> None:
    ann, entry = person("view_beatcursor", "run_periodic"), often()
    shop.post.arrived()
    url = page("beatcursor", "run_now", entry.pk)
    mark = seen(ann, url)
    assert shop.post.arrived() == [], "a question sends nothing"
    form = {"reason": "the report was wrong", "seen": mark}
    answer = ann.post(url, form, follow=True)
    assert "often is sent." in messages_of(answer)
    assert len(shop.post.arrived()) == 1
    assert answer.context["past"][0]["by"] == "asked for by ann"
    entry_of_log = LogEntry.objects.get()
    assert entry_of_log.change_message == "Run it now: the report was wrong"
    assert entry_of_log.object_repr == "often"
    assert "Somebody else has run it meanwhile" in messages_of(ann.post(url, form, follow=True))
    assert shop.post.arrived() == []
    assert "the report was wrong" in ann.get(page("beatcursor", "history", entry.pk)).content.decode()


def test_it_is_refused_with_who_has_it_while_a_run_is_unfinished(root: Client, shop: Bench) -> None:
    entry = often()
    url = page("beatcursor", "run_now", entry.pk)
    form = {"reason": "again", "seen": seen(root, url)}
    key = last(shop)
    key.update(state=State.RUNNING, started_at=shop.now - timedelta(minutes=5), owner="w1:7:abc")
    assert "Run it now" not in root.get(page("beatcursor", "change", entry.pk)).content.decode()
    for answer in (root.get(url, follow=True), root.post(url, form, follow=True)):
        assert "It has been running since" in messages_of(answer)
        assert "by a process of an unknown worker (pid 7)." in messages_of(answer)
    key.update(state=State.PENDING)
    assert "It has waited for a worker since" in messages_of(root.post(url, form, follow=True))
    assert not LogEntry.objects.exists()


def test_an_entry_that_is_gone_or_is_none_is_no_error(root: Client, shop: Bench) -> None:  # noqa: ARG001
    for odd in (10**9, "x", "9" * 40, "²"):
        assert root.get(page("beatcursor", "change", odd)).status_code == 302
        assert root.get(page("beatcursor", "run_now", odd)).status_code == 302


def test_the_dashboard_says_that_nobody_leads_and_what_is_overdue(root: Client, shop: Bench) -> None:
    def about_beat() -> list[str]:
        found = root.get(DASHBOARD).context["findings"]
        return [each.text for each in found if each.url == LIST]

    assert about_beat() == []
    assert LIST in root.get(DASHBOARD).content.decode()
    with shifted(300):
        nobody, overdue = about_beat()
    assert nobody.startswith("Nobody leads beat while periodic tasks are enabled")
    assert overdue.startswith("1 periodic task is overdue")
    BeatCursor.objects.update(stranger_at=shop.now)
    assert "ordinary beat" in about_beat()[0]
    with at_most(40):
        root.get(DASHBOARD)


@pytest.mark.parametrize("minute", ["1,", "*/-1", "a", "99"])
def test_a_crontab_that_cannot_be_read_is_shown_as_it_is_written(
    root: Client, bench: Bench, minute: str
) -> None:
    crontab = CrontabSchedule.objects.create(minute=minute, timezone="UTC")
    bench.entry("odd", crontab=crontab)
    assert minute in rows(root)["odd"]["schedule"]


def test_without_django_celery_beat_there_is_no_page(settings: Any) -> None:
    site = AdminSite()
    periodic.register(site)
    assert site.is_registered(BeatCursor)
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_celery_beat"]
    site = AdminSite()
    periodic.register(site)
    assert not site.is_registered(BeatCursor)


def test_where_periodic_tasks_are_in_another_database_the_page_says_so(
    root: Client,
    shop: Bench,  # noqa: ARG001
    settings: Any,
) -> None:
    settings.DATABASE_ROUTERS = ["tests.beat.test_trouble.Elsewhere"]
    assert "one transaction must hold both" in root.get(LIST).content.decode()
    assert root.get(page("beatcursor", "run_now", 1)).status_code == 302


@pytest.mark.parametrize("wrong", BAD)
def test_an_entry_that_beat_cannot_read_is_named_with_the_remedy_beside_the_others(
    root: Client, shop: Bench, wrong: str
) -> None:
    bad = shop.every(10, "bad")
    BAD[wrong](bad)
    beat = shop.beat()
    shop.tick(beat)
    found = rows(root)
    assert (found["often"]["problem"], set(found)) == ("", {"often", "bad"})
    assert found["bad"]["problem"].endswith(".")
    assert found["bad"]["next"] == "none: beat cannot read the entry"
    said = root.get(page("beatcursor", "change", bad.pk))
    assert ("cannot be read", found["bad"]["problem"]) in said.context["facts"]
    assert root.get(page("beatcursor", "history", bad.pk)).status_code == 200
    url = page("beatcursor", "run_now", bad.pk)
    if wrong not in SENT_BY_HAND:
        answer = root.post(url, {"reason": "now", "seen": seen(root, url)}, follow=True)
        assert found["bad"]["problem"] in messages_of(answer)
    findings = root.get(DASHBOARD).context["findings"]
    (about,) = [each for each in findings if "Beat cannot read" in each.text]
    assert about.url == LIST


#: The schedule never names a time, but a person does.
SENT_BY_HAND = {"a day that never comes"}


def test_an_entry_that_only_the_host_of_beat_cannot_read_says_so(root: Client, shop: Bench) -> None:
    BeatCursor.objects.filter(pk=often().pk).update(next_due_at=ASIDE)
    assert "beat's log there says why" in rows(root)["often"]["problem"]
    assert shop.cursor(often()).last_due_at is not None
