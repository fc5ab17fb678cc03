"""The page of a key: how it stands and what a person can do, in that order; a waiting retry runs now."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.admin.conftest import HOSTILE, Person, at_most, logged, messages_of, page, seen
from tests.admin.test_keys import inert
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
KEY = "idempotencykey"
WHY = "the gateway is back"


def retrying(keys: Keys, *, wait: int = 3600) -> Claim:
    """A key whose second attempt waits."""
    claim = keys.claimed()
    assert keys.store().retry(
        claim,
        message=None,
        reason=Reason.RETRY_ASKED,
        wait=wait,
        republish=300,
        failure=a_failure("shop.Busy"),
    )
    return claim


def test_the_page_begins_with_how_the_key_stands_and_what_can_be_done(root: Client, keys: Keys) -> None:
    claim = keys.claimed(lease=60)
    html = root.get(page(KEY, "change", claim.digest)).content.decode()
    content = html[html.index('id="content-main"') :]
    order = [
        'idem-is-runs">running<',
        "which runs call A",
        "Its holder renews the lease",
        "You can release the key (its holder loses it) or cancel the call (no worker runs it).",
        "idem-buttons",
        "Timeline",
        "Facts",
    ]
    assert sorted(order, key=content.index) == order
    assert 'class="button idem-grave"' in content, "what is dangerous looks so"


def test_each_attempt_is_told_with_its_worker_its_duration_and_its_retry(root: Client, keys: Keys) -> None:
    claim = keys.claimed()
    keys.in_columns(claim, started_at=keys.now(claim) - timedelta(seconds=5))
    assert keys.store().retry(
        claim,
        message=None,
        reason=Reason.RETRY_ASKED,
        wait=90,
        republish=300,
        failure=a_failure("shop.Busy"),
    )
    (first,) = [each for each in root.get(page(KEY, "change", claim.digest)).context["events"] if each.job]
    assert first.text == "attempt 1 failed on w@host: shop.Busy"
    assert re.search(r"\bIt ran for ([5-9]|[1-4]\d)\.", first.further)
    assert "To be retried 1 m 30 s later, at " in first.further
    with shifted(120):
        again = keys.started(claim.call)
        assert keys.fail(again, failure=a_failure("shop.Second"))
        first, second = [
            each for each in root.get(page(KEY, "change", claim.digest)).context["events"] if each.job
        ]
    assert re.search(r"\bRetried (1 m 59 s|2 m|2 m [1-4]?\d s) later\.", first.further)
    assert re.match(r"It ran for [1-4]?\d\.", second.further)


def test_a_waiting_retry_is_run_now_when_a_person_says_so(root: Client, keys: Keys) -> None:
    claim = retrying(keys)
    url = page(KEY, "retry_now", claim.digest)
    asked = root.get(url).content.decode()
    assert "in 59 min" in asked or "in 1 h" in asked
    assert "Retry it now" in asked
    with keys.untouched(claim):
        assert root.post(url, {"seen": seen(root, url), "reason": " "}).status_code == 400
    mark = seen(root, url)
    told = root.post(url, {"seen": mark, "reason": WHY}, follow=True)
    assert "due now" in messages_of(told)
    row = keys.row(claim)
    assert (row.state, row.open_at == row.due_at, row.sends) == (State.RETRY, True, -1)
    assert logged() == [f"Retry now: {WHY}"]
    again = root.post(url, {"seen": mark, "reason": WHY}, follow=True)
    assert "moved on" in messages_of(again)
    assert len(logged()) == 1
    assert keys.started(claim.call).token > claim.token, "a worker may claim it at once"


def test_a_retry_is_run_now_by_who_may_and_where_something_can_be_sent(
    root: Client, person: Person, keys: Keys
) -> None:
    claim = retrying(keys)
    url = page(KEY, "retry_now", claim.digest)
    viewer = person("view_idempotencykey", "release_key", "cancel_key")
    assert "Retry now" not in viewer.get(page(KEY, "change", claim.digest)).content.decode()
    with keys.untouched(claim):
        assert (viewer.get(url).status_code, viewer.post(url, {"seen": "1", "reason": WHY}).status_code) == (
            403,
            403,
        )
    assert person("view_idempotencykey", "retry_key", name="eve").get(url).status_code == 200
    keys.in_columns(claim, message=None)
    assert "only the copy that is on its way" in messages_of(root.get(url, follow=True))
    running = keys.claimed(keys.call("B"))
    assert "No retry waits: the key is running" in messages_of(
        root.get(page(KEY, "retry_now", running.digest), follow=True)
    )


def test_lists_show_badges_short_times_and_tasks_by_their_last_name(root: Client, keys: Keys) -> None:
    claim = keys.claimed()
    keys.in_columns(claim, task="shop.tasks.charge", created_at=keys.now(claim) - timedelta(minutes=3))
    html = root.get(page(KEY)).content.decode()
    assert '<span class="idem-badge idem-is-runs">running</span>' in html
    assert ">3 min ago</time>" in html
    assert '<span class="idem-task" title="shop.tasks.charge">charge <small>shop.<wbr>tasks</small>' in html
    assert "charge (shop.tasks)" in root.get(page(KEY), {"task": "shop.tasks.charge"}).content.decode()


def test_periodic_runs_that_succeeded_are_hidden_until_asked_for(root: Client, keys: Keys) -> None:
    done, running = keys.completed(keys.claimed()), keys.claimed(keys.call("B"))
    plain = keys.claimed(keys.call("C"))
    for claim in (done, running):
        keys.in_columns(claim, key_text=f"beat:1:{claim.call.task_id}")

    def listed(**query: str) -> set[object]:
        return {row.pk for row in root.get(page(KEY), query).context["cl"].result_list}

    every = {done.digest, running.digest, plain.digest}
    assert listed() == {running.digest, plain.digest}
    assert listed(periodic="shown") == listed(task="shop.charge") == every
    assert listed(periodic="only") == {done.digest, running.digest}
    assert listed(state=str(int(State.SUCCEEDED))) == set()
    assert "Periodic runs that succeeded are hidden." in root.get(page(KEY)).content.decode()
    with at_most(9):
        root.get(page(KEY), {"state": str(int(State.SUCCEEDED))})


def test_how_far_a_body_is_has_a_bar_and_words(root: Client, keys: Keys) -> None:
    claim = keys.claimed()
    note = HOSTILE.replace('"', "'").replace("\x1b", "\\u001b")
    assert keys.store().progress(claim, text=f'{{"done": 3, "total": 5, "note": "{note}"}}')
    pages = [page(KEY, "change", claim.digest), page(KEY), reverse("admin:django_idempotent_tasks_dashboard")]
    shown = [root.get(address).content.decode() for address in pages]
    assert ">running</span> 3 of 5 (60%)<" in shown[1]
    for html in (shown[0], shown[2]):
        inert(html)
        assert "3 of 5 (60%): &lt;script&gt;" in html
        assert '<progress value="60" max="100" aria-label="progress">60%</progress>' in html
