"""A consumer whose Redis stops while it has an unacknowledged message, as Celery's worker then ends it.

Run as a program: ``python -m tests.processes.plain_celery.redis_stops <url> <pid of the server> [mended]``.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from kombu import Connection, Exchange, Queue
from kombu.common import ignore_errors

from django_idempotent_tasks.worker import redis_restart


def main(url: str, server: int, *, mended: bool) -> None:
    """Take a message, let the server end, and give the connection up in Celery's two steps."""
    if mended:
        redis_restart.install()
    connection = Connection(url)
    queue = Queue("stopping")
    with connection.Producer() as producer:
        producer.publish({}, routing_key=queue.name, declare=[queue], serializer="json")
    taken: list[Any] = []
    consumer = connection.Consumer(queue, on_message=taken.append)
    consumer.consume()
    # As remote control has it: what such a channel deletes at its end fails first, and leaves the other open.
    told = Queue("told", Exchange("told", type="fanout"), auto_delete=True)
    connection.Consumer(told, channel=connection.channel(), on_message=taken.append).consume()
    while not taken:
        connection.drain_events(timeout=10)
    with suppress(TimeoutError):
        connection.drain_events(timeout=0.1)  # it waits for another message now
    os.kill(server, signal.SIGKILL)
    connection.collect()
    ignore_errors(connection, connection.close)
    taken[0].ack_log_error(logging.getLogger(), connection.connection_errors)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), mended="mended" in sys.argv)
