"""A task's options: each bad one names its remedy, none breaks another task, callables stay unbound."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery

from django_idempotent_tasks import TASK_ID, ConfigurationError, IdempotentTask
from django_idempotent_tasks.identity.rules import ALL_ARGUMENTS

if TYPE_CHECKING:
    from pytest_django import Settings


@pytest.fixture
def app() -> Celery:
    app = Celery("options", broker="memory://", set_as_current=False)
    app.conf.task_always_eager = True
    return app


def found(app: Any, name: str) -> Any:
    """The task as it was created; the stubs do not know our attributes."""
    return app.tasks[name]


def declare(app: Celery, name: str = "shop.charge", **options: Any) -> Any:
    def charge(order_id: int, amount: str = "0") -> str:
        return f"{order_id} {amount}"

    decorate: Any = app.task(base=IdempotentTask, shared=False, name=name, **options)
    return found(app, decorate(charge).name)


def test_an_earlier_name_that_another_task_has_is_refused(app: Celery) -> None:
    @app.task(shared=False, name="shop.pay")
    def pay() -> None: ...

    assert found(app, "shop.pay").name == "shop.pay"
    with pytest.raises(ConfigurationError, match="'shop\\.pay', which is the name of another task"):
        declare(app, aliases=("shop.pay",)).delay(7)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"key": "ordr_id"}, "it has: order_id, amount"),
        ({"key": ("order_id", "nope")}, "it has: order_id, amount"),
        ({"key": 7}, "must name arguments"),
        ({"aliases": "shop.pay"}, "a tuple of the task's earlier names, the oldest first"),
        ({"aliases": ("shop.charge",)}, "a tuple of the task's earlier names"),
        ({"aliases": ("shop.pay",), "on_duplicate": "follow_up"}, "keep the old name"),
        ({"key": frozenset({"order_id"})}, "must name arguments"),
        ({"scope": "order_id", "sensitive": ("order_id",)}, "is stored and shown"),
        ({"scope": "tenant"}, "it has: order_id, amount"),
        ({"scope": 7}, "an argument's name or a callable"),
        ({"fingerprint": "nope"}, "it has: order_id, amount"),
        ({"lease": 0.5}, "between 1 s and"),
        ({"lease": "60"}, "seconds or a timedelta"),
        ({"lease": True}, "seconds or a timedelta"),
        ({"lease": float("nan")}, "seconds or a timedelta"),
        ({"retention": -1}, "between 0 s and"),
        ({"retention": timedelta(days=400_000)}, "between 0 s and"),
        ({"on_duplicate": "ignore"}, "'skip', 'replay', 'raise'"),
        ({"on_duplicate": "follow_up", "keep": "newest"}, "'last', 'first'"),
        ({"on_duplicate": "follow_up", "mode": "atomic"}, "mode='leased'"),
        ({"on_duplicate": "follow_up", "sensitive": ("amount",)}, "pass an id instead"),
        ({"on_duplicate": "follow_up", "at_most_once": True}, "on_duplicate='follow_up' would run again"),
        ({"on_duplicate": "follow_up", "retention": 60}, "leave it out"),
        ({"on_duplicate": "follow_up", "retention": 0}, "leave it out"),
        ({"keep": "last"}, "only with on_duplicate='follow_up'"),
        ({"debounce": 30, "reserve": True}, "only with on_duplicate='follow_up'"),
        ({"debounce_max": 30}, "only with on_duplicate='follow_up'"),
        ({"on_duplicate": "follow_up", "debounce": 30}, "add reserve=True"),
        ({"on_duplicate": "follow_up", "reserve": True, "debounce": -1}, "between 0 s and"),
        ({"on_duplicate": "follow_up", "reserve": True, "debounce_max": 30}, "only with 'debounce'"),
        (
            {"on_duplicate": "follow_up", "reserve": True, "debounce": 30, "debounce_max": 29},
            "at least 'debounce', 30 s",
        ),
        ({"on_failed": "retry"}, "'rerun', 'block'"),
        ({"on_store_down": "skip"}, "'retry', 'raise'"),
        ({"store_result": 1}, "True or False"),
        ({"max_crashes": 0}, "at least 1"),
        ({"permanent_errors": "ValueError"}, "a tuple of exception classes"),
        ({"transient_errors": (ValueError, 3)}, "a tuple of exception classes"),
        ({"classify": "fatal"}, "a callable"),
        ({"sensitive": "cvc"}, "must name arguments"),
        ({"sensitive": ("cvc",)}, "it has: order_id, amount"),
        ({"mode": "atomc"}, "'leased', 'atomic'"),
        ({"reserve": "yes"}, "True or False"),
        ({"reserve": True, "sensitive": ("order_id",)}, "pass an id instead"),
        ({"at_most_once": True, "mode": "atomic"}, "mode='leased'"),
        ({"enforce": False, "reserve": True}, "leave it out until the task is enforced"),
        ({"enforce": False, "on_duplicate": "follow_up"}, "leave it out until the task is enforced"),
        ({"enforce": "no"}, "True or False"),
        ({"enforced": False}, "Did you mean 'enforce'?"),
        ({"shadow_mode": True}, "Did you mean enforce=False?"),
        ({"retentoin": 5}, "Did you mean 'retention'?"),
        ({"on_duplicates": "raise"}, "Did you mean 'on_duplicate'?"),
        ({"leese": 5}, "Did you mean 'lease'?"),
        ({"idempotency_key": "order_id"}, "Did you mean 'key'?"),
        ({"permanent_exceptions": (ValueError,)}, "Did you mean 'permanent_errors'?"),
        ({"transient_exceptions": (ValueError,)}, "Did you mean 'transient_errors'?"),
        ({"ttl": 60}, "Did you mean 'retention', how long a finished key refuses duplicates, or 'lease'"),
        ({"atomic": True}, "Did you mean mode='atomic'?"),
        ({"idempotencykey": "order_id"}, "Did you mean 'key'?"),
        ({"idempotency_scope": "order_id"}, "Did you mean 'scope'?"),
        ({"transient_err": (ValueError,)}, "Did you mean 'transient_errors'?"),
    ],
    ids=str,
)
def test_a_bad_option_names_its_remedy_at_every_send_and_call(
    app: Celery, options: dict[str, Any], remedy: str
) -> None:
    task = declare(app, **options)
    assert remedy in str(task.idempotency_error)
    assert "shop.charge" in str(task.idempotency_error)
    for send in (task.delay, task.s().delay, task.si(7).apply_async):
        with pytest.raises(ConfigurationError, match=r"shop\.charge"):
            send()
    for call in (task, lambda order_id: task.apply((order_id,)).get()):
        with pytest.raises(ConfigurationError, match=r"shop\.charge"):
            call(7)


@pytest.mark.parametrize("word", ["idempotencykey", "idempotent_key", "IdempotencyKey", "key"])
def test_a_key_given_by_a_wrong_word_is_refused_and_not_sent_as_a_property(app: Celery, word: str) -> None:
    task = declare(app)
    for call in (task.apply_async, task.submit):
        with pytest.raises(ConfigurationError, match=f"'{word}'. Did you mean 'idempotency_key'?"):
            call((7,), **{word: "evt_1"})
    app.conf.task_always_eager = False
    task.apply_async((7,), stamped_headers=["key"], key="a stamp of the project")


def test_a_name_that_the_ledger_cannot_hold_is_refused(app: Celery) -> None:
    @app.task(base=IdempotentTask, shared=False, name="x" * 256)
    def long(x: int) -> int:
        return x

    assert "shorter" in str(found(app, "x" * 256).idempotency_error)


def test_a_bad_option_leaves_the_other_tasks_alone(app: Celery) -> None:
    declare(app, key="nope")

    @app.task(base=IdempotentTask, shared=False, name="shop.other")
    def other(x: int) -> int:
        return x

    assert found(app, "shop.other").idempotency_error is None
    assert "shop.charge" in app.tasks


def test_an_unknown_keyword_that_is_no_misspelling_stays_celerys(app: Celery) -> None:
    task = declare(app, team="payments", max_retries=9, rate_limit="5/s")
    assert task.idempotency_error is None
    assert (task.team, task.max_retries) == ("payments", 9)


def test_a_task_without_parameters_must_state_its_key(app: Celery) -> None:
    @app.task(base=IdempotentTask, shared=False, name="shop.tick")
    def tick() -> None: ...

    @app.task(base=IdempotentTask, shared=False, name="shop.once", key=())
    def once() -> None: ...

    assert "key=()" in str(found(app, "shop.tick").idempotency_error)
    assert found(app, "shop.once").idempotency_error is None


def test_callables_never_receive_self(app: Celery) -> None:
    seen: list[tuple[Any, ...]] = []

    def key(*args: Any, **kwargs: Any) -> str:
        seen.append((*args, *sorted(kwargs)))
        return "k"

    task = declare(app, key=key, scope=lambda order_id, **_: f"t{order_id}", classify=lambda _error: None)
    assert task.key(1, amount="2") == "k"
    assert task.scope(3) == "t3"
    assert task.classify(ValueError()) is None
    assert seen == [(1, "amount")]


def test_defaults_come_from_the_settings(app: Celery, settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"LEASE": 5, "RETENTION": timedelta(hours=1), "MAX_CRASHES": 7}
    policy = declare(app).idempotency_policy
    assert (policy.lease, policy.retention, policy.max_crashes) == (5, 3600, 7)
    assert policy.key_rules.key is ALL_ARGUMENTS


def test_fractions_of_a_second_are_rounded_up(app: Celery) -> None:
    policy = declare(app, lease=1.2, retention=timedelta(milliseconds=1500)).idempotency_policy
    assert (policy.lease, policy.retention) == (2, 2)


def test_options_may_be_class_attributes(app: Celery) -> None:
    class Charge(IdempotentTask):
        name = "shop.class_based"
        key = TASK_ID
        on_duplicate = "raise"

        def run(self, order_id: int) -> int:
            return order_id

    task = app.register_task(Charge())
    assert task.idempotency_error is None
    assert task.idempotency_policy.on_duplicate == "raise"
    assert task.idempotency_policy.key_rules.key is TASK_ID


def test_with_task_cls_only_tasks_that_set_an_option_are_guarded() -> None:
    app = Celery("cls", broker="memory://", set_as_current=False, task_cls=IdempotentTask)

    @app.task(shared=False, name="cls.plain")
    def plain(x: int) -> int:
        return x

    @app.task(shared=False, name="cls.guarded", key="x")
    def guarded(x: int) -> int:
        return x

    tasks: Any = app.tasks
    assert tasks["cls.guarded"].idempotency_guarded
    assert not tasks["cls.plain"].idempotency_guarded
    assert not tasks["celery.backend_cleanup"].idempotency_guarded
    assert (tasks["cls.plain"].acks_late, tasks["cls.guarded"].acks_late) == (False, True)


def test_guard_all_guards_every_task_but_celerys_own(settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"GUARD_ALL": True}
    app = Celery("all", broker="memory://", set_as_current=False, task_cls=IdempotentTask)

    @app.task(shared=False, name="all.plain")
    def plain(x: int) -> int:
        return x

    assert found(app, "all.plain").idempotency_guarded
    assert not found(app, "celery.backend_cleanup").idempotency_guarded


def test_a_guarded_task_acknowledges_late(app: Celery) -> None:
    task = declare(app)
    assert task.acks_late
    assert task.reject_on_worker_lost


def test_follow_ups_keep_the_last_call_and_imply_a_retention_of_nothing(app: Celery) -> None:
    policy = declare(app, on_duplicate="follow_up").idempotency_policy
    assert (policy.follows, policy.keep, policy.retention, policy.debounce) == (True, "last", 0, 0)
    assert policy.key_rules.fingerprint is None


@pytest.mark.parametrize(("stated", "most"), [({}, 300), ({"debounce_max": 45}, 45)])
def test_a_debounced_call_is_put_off_for_ten_times_as_long_unless_it_is_said(
    app: Celery, stated: Any, most: int
) -> None:
    wait = timedelta(seconds=30)
    policy = declare(app, on_duplicate="follow_up", reserve=True, debounce=wait, **stated).idempotency_policy
    assert (policy.debounce, policy.debounce_max) == (30, most)


def test_the_setting_puts_tasks_in_shadow_mode_that_say_nothing(app: Celery, settings: Settings) -> None:
    settings.IDEMPOTENT_TASKS = {"ENFORCE": False}
    silent = declare(app)
    assert (silent.idempotency_observed, silent.idempotency_guarded, silent.acks_late) == (True, False, False)
    spoken = declare(app, enforce=True, reserve=True, name="shop.spoken")
    assert (spoken.idempotency_observed, spoken.idempotency_guarded, spoken.acks_late) == (False, True, True)
    reserving = declare(app, reserve=True, name="shop.reserving")
    assert "say enforce=True" in str(reserving.idempotency_error)
