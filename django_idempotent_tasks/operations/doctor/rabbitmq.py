"""Checks of a broker that is RabbitMQ: its settings, its queues, and what the server says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...identity.text import harmless
from ..text import listed
from .check import Catalogue, Severity
from .project import AMQP, Project

rabbitmq = Catalogue("RabbitMQ")
#: Of what the server tells each client that connects.
rabbitmq_server = Catalogue("RabbitMQ")

#: AMQP's number for messages that a restart of the broker loses, and the words that kombu knows for it.
TRANSIENT = frozenset({1, "transient"})
#: The oldest version that the tests run with.
OLDEST = (3, 10)


@rabbitmq.check(
    "D401",
    Severity.ERROR,
    finds="no `confirm_publish` in `broker_transport_options`",
    why="A message that RabbitMQ does not take (a restart, a full queue, an alarm) is lost without an error."
    " Only reserved calls are always confirmed.",
    remedy='Set broker_transport_options = {"confirm_publish": True}.',
)
def _is_not_confirmed(project: Project) -> Iterator[str]:
    if project.is_on_amqp and not project.transport.get("confirm_publish"):
        yield "confirm_publish is not set."


@rabbitmq.check(
    "D402",
    Severity.ERROR,
    finds="messages or queues that a restart of RabbitMQ loses (`delivery_mode` 1, `durable=False`)",
    why="All waiting work is gone after the restart.",
    remedy="Leave delivery_mode and durable at their defaults.",
)
def _is_transient(project: Project) -> Iterator[str]:
    if not project.is_on_amqp:
        return
    if project.conf.task_default_delivery_mode in TRANSIENT:
        yield "task_default_delivery_mode is transient."
    for queue in project.queues:
        exchange = queue.exchange
        lasts = queue.durable and getattr(exchange, "durable", True)
        if not lasts or getattr(exchange, "delivery_mode", None) in TRANSIENT:
            yield f"The queue {harmless(queue.name)!r}, its exchange or its messages are not durable."


@rabbitmq.check(
    "D403",
    Severity.WARNING,
    finds="the user `guest` at a RabbitMQ of another host",
    why="RabbitMQ refuses it there by default; where that was changed, everybody knows the password.",
    remedy="Make a user for the project, with rights for its virtual host alone.",
)
def _is_a_guest(project: Project) -> Iterator[str]:
    for each in project.brokers_of(AMQP):
        if not each.is_local and each.user in {"", "guest"}:
            yield f"{each} is used as guest."


@rabbitmq.check(
    "D404",
    Severity.ERROR,
    finds="quorum queues, and `worker_detect_quorum_queues` off",
    why="The worker asks for a prefetch limit of the whole channel, which quorum queues refuse: it does not"
    " start to consume.",
    remedy="Set worker_detect_quorum_queues = True.",
)
def _limits_the_channel(project: Project) -> Iterator[str]:
    if project.is_on_amqp and _quorum(project) and not project.conf.worker_detect_quorum_queues:
        yield "worker_detect_quorum_queues is False."


@rabbitmq.check(
    "D405",
    Severity.WARNING,
    finds="`broker_heartbeat` of 0",
    why="A connection that died silently (a firewall, a lost host) is noticed after two hours: the"
    " worker consumes nothing, and RabbitMQ keeps its messages.",
    remedy="Leave broker_heartbeat at 120, or set 30.",
)
def _is_not_heard(project: Project) -> Iterator[str]:
    if project.is_on_amqp and not project.conf.broker_heartbeat:
        yield "broker_heartbeat is 0."


@rabbitmq.check(
    "D406",
    Severity.ADVICE,
    finds="quorum queues without a dead letter exchange",
    why="RabbitMQ drops a message that it has delivered too often (20 times by default). The sweeper sends"
    " work with a row in the ledger again; a plain task is lost.",
    remedy='Give the queue queue_arguments={"x-dead-letter-exchange": ...}, or a policy that does it.',
)
def _drops(project: Project) -> Iterator[str]:
    lossy = [queue.name for queue in _quorum(project) if not _argument(queue, "x-dead-letter-exchange")]
    if project.is_on_amqp and lossy:
        yield f"No x-dead-letter-exchange on {listed(lossy)}."


@rabbitmq.check(
    "D407",
    Severity.ADVICE,
    finds="classic queues",
    why="A classic queue lives on one node: while that node is away, its messages are away too.",
    remedy='Set task_default_queue_type = "quorum" for new queues, where RabbitMQ is a cluster.',
)
def _is_on_one_node(project: Project) -> Iterator[str]:
    quorum = {queue.name for queue in _quorum(project)}
    classic = [queue.name for queue in project.queues if queue.name not in quorum]
    if project.is_on_amqp and classic:
        yield f"Classic: {listed(classic)}."


@rabbitmq.check(
    "D408",
    Severity.WARNING,
    finds="a control queue that is exclusive to a worker's connection (`control_queue_exclusive`, the"
    " default of Celery 5.7)",
    why="A worker whose connection is lost on its side alone (a firewall, a broker that stood still) may not"
    " declare its queue again while RabbitMQ still holds the old connection: it ends with RESOURCE_LOCKED,"
    " for good, where it could have connected again.",
    remedy="Set control_queue_exclusive = False and control_queue_durable = True.",
)
def _locks_itself_out(project: Project) -> Iterator[str]:
    conf = project.conf
    if project.is_on_amqp and conf.worker_enable_remote_control and conf.control_queue_exclusive:
        yield "control_queue_exclusive is True."


@rabbitmq_server.check(
    "D420",
    Severity.WARNING,
    finds="a RabbitMQ older than 3.10",
    why="It gets no fixes any more, and the tests of this package do not run on it.",
    remedy="Upgrade the server.",
)
def _is_old(properties: Mapping[str, Any]) -> Iterator[str]:
    version = str(properties.get("version", ""))
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if parts and parts < OLDEST:
        yield f"The server is RabbitMQ {harmless(version)}."


def _quorum(project: Project) -> list[Any]:
    """The quorum queues; a queue without a type of its own has that of the setting."""
    default = project.conf.task_default_queue_type
    return [queue for queue in project.queues if (_argument(queue, "x-queue-type") or default) == "quorum"]


def _argument(queue: Any, name: str) -> Any:
    return (queue.queue_arguments or {}).get(name)
