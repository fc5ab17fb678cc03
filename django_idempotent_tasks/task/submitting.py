"""``submit()``, which calls ``apply_async`` so that a class before the mixin can extend it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

from ..exceptions import ConfigurationError
from ..identity.rules import UNSET
from .identified import Identified, IdentifiedTask

if TYPE_CHECKING:
    from ..sending.submission import Submission


class Submitting:
    """One running ``submit()``, and the submission it ends with."""

    def __init__(self, task: Any, task_id: str) -> None:
        self.task = task
        self.task_id = task_id
        self.submission: Submission | None = None


_submitting: ContextVar[Submitting | None] = ContextVar("idempotent_submitting", default=None)


class SubmittedTask(IdentifiedTask):
    """Part of the mixin: ``submit()``."""

    idempotency_guarded: ClassVar[bool]

    def submit(
        self,
        args: Any = (),
        kwargs: Any = None,
        *,
        idempotency_key: object = UNSET,
        scope: object = UNSET,
        **options: Any,
    ) -> Submission:
        """Reserve this call, whatever the task's ``reserve``, and say which call has the work.

        Never raises for a duplicate; raises :class:`KeyReused` for another payload under the key
        and :class:`ConfigurationError` for a call that cannot be stored.
        """
        if not self.idempotency_guarded or self._policy().sensitive:
            msg = f"{self.name} cannot be submitted: it is not guarded, or has sensitive arguments."
            raise ConfigurationError(msg)
        stated = {"idempotency_key": idempotency_key, "scope": scope}
        options |= {name: value for name, value in stated.items() if value is not UNSET}
        submitting = Submitting(self, self._id_of(options.pop("task_id", None)))
        token = _submitting.set(submitting)
        try:
            self.apply_async(args, kwargs, task_id=submitting.task_id, **options)  # type: ignore[attr-defined]
        finally:
            _submitting.reset(token)
        if submitting.submission is None:
            msg = f"{self.name}: an apply_async before IdempotentTaskMixin returned without calling super()."
            raise ConfigurationError(msg)
        return submitting.submission

    def _submitting(self) -> Submitting | None:
        """The ``submit()`` that this ``apply_async`` belongs to; a further call of a class has none."""
        submitting = _submitting.get()
        if submitting is None or submitting.task is not self:
            return None
        _submitting.set(None)
        return submitting

    def _submitted(
        self, submitting: Submitting, args: Any, kwargs: Any, options: dict[str, Any], call: Identified
    ) -> Any:
        from ..sending.send import Sending, submit

        behind = super().apply_async  # type: ignore[misc]  # of the classes behind the mixin
        options = {**options, "headers": call.headers}
        sending = Sending(behind, args, kwargs, submitting.task_id, call.own, options)
        submitting.submission = submit(self, self._policy(), sending)
        return submitting.submission.result or self.AsyncResult(submitting.task_id)  # type: ignore[attr-defined]
