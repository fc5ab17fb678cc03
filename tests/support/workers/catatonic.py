"""Makes a worker deaf (``--include tests.support.workers.catatonic``): it answers, and takes no message.

So a worker is after its connection to Redis broke at a bad moment: it goes on to say that it consumes its
queues, and nothing waits at Redis for a message of them.
"""

from __future__ import annotations

from typing import Any

from celery.worker.control import control_command


@control_command(name="go_deaf")
def go_deaf(state: Any) -> dict[str, bool]:
    """Wait for no queue any more, without telling the consumer."""
    channel = state.consumer.task_consumer.channel
    channel._queue_cycle.update([])
    return {"ok": True}
