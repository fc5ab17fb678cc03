"""The production settings of Celery say what their comments promise."""

from __future__ import annotations

from celery.app.defaults import DEFAULTS

from example_project import celery_config
from example_project.payments.tasks import handle_event, notify

QUEUES = {queue.name: queue for queue in celery_config.task_queues}


def test_every_name_is_a_setting_of_celery() -> None:
    known = set(DEFAULTS)
    ours = {name for name in vars(celery_config) if name.islower() and not name.startswith("_")}

    assert ours - {"annotations", "os", "crontab"} <= known


def test_only_json_is_accepted() -> None:
    assert celery_config.accept_content == celery_config.result_accept_content == ["json"]


def test_the_limits_are_in_order() -> None:
    visible_again = celery_config.broker_transport_options["visibility_timeout"]

    assert celery_config.task_soft_time_limit < celery_config.task_time_limit < visible_again


def test_each_task_has_a_queue_of_its_own() -> None:
    routes = celery_config.task_routes

    assert routes[handle_event.name] == {"queue": "payments"}
    assert routes[notify.name] == {"queue": "notifications"}
    assert {"payments", "notifications", celery_config.task_default_queue} == set(QUEUES)


def test_no_queue_gets_what_is_sent_to_another() -> None:
    bindings = {(queue.exchange.name, queue.routing_key) for queue in QUEUES.values()}

    assert len(bindings) == len(QUEUES)
