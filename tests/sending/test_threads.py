"""Many threads of a web server send at once."""

from __future__ import annotations

from threading import Barrier, Thread

from celery._state import task_join_will_block  # type: ignore[attr-defined]  # not in the stubs

from django_idempotent_tasks.messages.message import Message
from tests.support.post import Post


def test_sending_from_many_threads_leaves_celerys_guard_of_get_alone(post: Post) -> None:
    message, gate = Message.of("shop.charge", (1,), {}, {"task_id": "A"}), Barrier(8)

    def send() -> None:
        for _ in range(25):
            gate.wait()
            message.publish(post.app)

    threads = [Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not task_join_will_block()
