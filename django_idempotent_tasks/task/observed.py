"""Sends the calls of tasks in shadow mode as plain Celery does, with their identity where they have one."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from celery.exceptions import SoftTimeLimitExceeded
from celery.utils import uuid

from ..messages.header import HEADER, UNKEYED
from ..messages.masking import masked_reprs
from ..messages.stamping import Passage, Send
from .submitting import SubmittedTask

logger = logging.getLogger("django_idempotent_tasks")


class ObservedTask(SubmittedTask):
    """Part of the mixin: sends what nothing is refused of."""

    #: Whether this task is in shadow mode: its calls run as without a guard, which only notes them.
    idempotency_observed: ClassVar[bool] = False

    def _sent_unguarded(
        self, send: Send, args: Any, kwargs: Any, task_id: Any, headers: Any, stated: Any, options: Any
    ) -> Any:
        """Send the call as the next class does, in shadow mode with its identity.

        ``stated`` are its ``idempotency_key`` and its ``scope``.
        """
        if not self.idempotency_observed or isinstance(options["producer"], Passage):
            return send(args, kwargs, task_id=task_id, headers=headers, **options)
        self._refuse_misspelt(options)
        task_id = task_id or uuid()
        headers = self._observed_headers(args, kwargs, task_id, headers, stated)
        options = {**masked_reprs(self._policy(), args, kwargs), **options}
        return send(args, kwargs, task_id=task_id, headers=headers, **options)

    def _observed_headers(
        self, args: Any, kwargs: Any, task_id: Any, headers: Any, stated: tuple[object, object]
    ) -> dict[str, Any]:
        """The headers with the call's identity, or with the word that it has none: the worker counts it."""
        try:
            return self._identified(args, kwargs, task_id, headers, *stated).headers
        except SoftTimeLimitExceeded:
            raise
        except Exception as error:  # noqa: BLE001  a key function may raise anything, and nothing is refused
            logger.warning("%s is sent without a key, which the guard would refuse: %s", self.name, error)
            return {**(headers or {}), HEADER: UNKEYED}
