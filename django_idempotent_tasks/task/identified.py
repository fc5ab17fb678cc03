"""Gives a task's calls their identity: computed from the arguments, or read from the headers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from celery.utils import uuid

from ..conf import settings
from ..conf.near_misses import misspelt_keyword
from ..conf.options import Policy
from ..errors.raised import anew
from ..exceptions import ConfigurationError, InvalidKey
from ..identity.arguments import check_given
from ..identity.key import Identity, identify
from ..identity.rules import UNSET
from ..messages.header import HEADER, SENT, Carried, carried, task_id_problem, to_header

#: Keywords of nearly every call, which need no second look.
USUAL = frozenset({"producer", "link", "link_error", "shadow", "countdown", "eta", "queue", "priority"})


class Identified(NamedTuple):
    """A call's identity, and the headers that carry it; ``is_copy``: they carried it before."""

    own: Carried
    headers: dict[str, Any]
    is_copy: bool


class IdentifiedTask:
    """Part of the mixin: gives every call its task id and its identity."""

    name: str
    idempotency_error: ClassVar[ConfigurationError | None]
    idempotency_policy: ClassVar[Policy]

    def idempotency_identity(
        self,
        args: Any = None,
        kwargs: Any = None,
        *,
        task_id: str = "",
        idempotency_key: object = UNSET,
        scope: object = UNSET,
    ) -> Identity:
        """The key, scope and fingerprint of such a call. Raises :class:`InvalidKey` as sending does."""
        if args is not None and not isinstance(args, list | tuple):
            args = tuple(args)
        args, kwargs = self.idempotency_dumped(args, kwargs)
        return identify(
            self.name,
            self._policy().key_rules,
            args or (),
            kwargs or {},
            task_id=task_id,
            idempotency_key=idempotency_key,
            scope=scope,
        )

    def idempotency_dumped(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments as Celery sends them: pydantic models as what they dump to."""
        dump = getattr(self, "_dump_pydantic_arguments", None)
        return dump(args, kwargs) if dump is not None else (args, kwargs)

    def _refuse_misspelt(self, options: Mapping[str, Any]) -> None:
        """Raise for a misspelt ``idempotency_key``, which Celery would send along as a message's property."""
        unknown = options.keys() - USUAL
        stamps = options.get("stamped_headers") or ()
        name = misspelt_keyword(unknown - set(stamps)) if unknown else None
        if name is not None:
            msg = f"{self.name}: a call has no keyword {name!r}. Did you mean 'idempotency_key'?"
            raise ConfigurationError(msg)

    def idempotency_task_id(self, task_id: Any) -> str:
        """The task id of a call that is sent; raises InvalidKey for one that the ledger cannot hold."""
        task_id = task_id or uuid()
        problem = task_id_problem(task_id)
        if problem is not None:
            msg = f"A task id of {self.name} {problem}."
            raise InvalidKey(msg)
        return str(task_id)

    def _identified(
        self,
        args: Any,
        kwargs: Any,
        task_id: str,
        headers: dict[str, Any] | None,
        key: object,
        scope: object,
        in_canvas: bool = False,  # noqa: FBT001, FBT002
    ) -> Identified:
        """This call's identity: the one that its headers carry (a retry, a copy), or computed here."""
        check_given(args, kwargs, task=self.name)
        own = carried(headers, task_name=self.name, task_id=task_id)
        is_copy = own is not None
        if own is None:
            named = {"idempotency_key": key, "scope": scope}
            identity = self.idempotency_identity(args, kwargs, task_id=task_id, **named)
            header = to_header(identity, task_name=self.name, task_id=task_id, in_canvas=in_canvas)
            if settings().telemetry:
                header[SENT] = round(time.time(), 3)
            own = Carried(identity, header)
        return Identified(own, {**(headers or {}), HEADER: own.header}, is_copy)

    def _policy(self) -> Policy:
        if self.idempotency_error is not None:
            raise anew(self.idempotency_error)
        return self.idempotency_policy
