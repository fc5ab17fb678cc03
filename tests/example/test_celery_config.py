"""The production settings of Celery say what their comments promise."""

from __future__ import annotations

from celery.app.defaults import DEFAULTS

from example_project import celery_config
from example_project.payments.tasks import handle_event, notify
from example_project.registrations.tasks import ask_again, print_badge, register, take_payment

QUEUES = {queue.name: queue for queue in celery_config.task_queues}


def test_every_name_is_a_setting_of_celery() -> None:
    # An older Celery leaves out what it does not know.
    known = set(DEFAULTS) | {"broker_pool_acquire_timeout"}
    ours = {name for name in vars(celery_config) if name.islower() and not name.startswith("_")}

    assert ours - {"annotations", "os", "crontab"} <= known


def test_only_json_is_accepted() -> None:
    assert celery_config.accept_content == celery_config.result_accept_content == ["json"]


def test_the_limits_are_in_order() -> None:
    visible_again = celery_config.broker_transport_options["visibility_timeout"]

    assert celery_config.task_soft_time_limit < celery_config.task_time_limit < visible_again
    assert celery_config.task_time_limit < register.soft_time_limit < register.time_limit < visible_again


def test_each_kind_of_work_has_a_queue_of_its_own() -> None:
    queues = {
        handle_event.name: "payments",
        notify.name: "notifications",
        register.name: "registrations",
        print_badge.name: "badges",
        take_payment.name: "payments",
        ask_again.name: "payments",
    }

    assert {task: route["queue"] for task, route in celery_config.task_routes.items()} == queues
    assert {*queues.values(), celery_config.task_default_queue} == set(QUEUES)


def test_a_worker_s_memory_is_bounded() -> None:
    assert celery_config.worker_prefetch_multiplier == 1
    assert 0 < celery_config.worker_max_memory_per_child < 1_000_000  # KiB: 1,000 would be a fork each task
    assert celery_config.worker_max_memory_per_child > 200_000
    assert 0 < celery_config.worker_max_tasks_per_child <= 1000


def test_no_queue_gets_what_is_sent_to_another() -> None:
    bindings = {(queue.exchange.name, queue.routing_key) for queue in QUEUES.values()}

    assert len(bindings) == len(QUEUES)
