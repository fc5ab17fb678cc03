"""``submit()`` and ``submit_many()`` call ``apply_async``, so that a class before the mixin can extend it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

from ..conf.options import Policy
from ..exceptions import ConfigurationError
from ..identity.rules import UNSET
from .identified import Identified, IdentifiedTask

if TYPE_CHECKING:
    from ..sending.submission import Submission


class Submitting:
    """One call of ``submit()`` or ``submit_many()``: what carries it out, and the outcome of that."""

    def __init__(self, task: Any, task_id: str, carry_out: Callable[..., Any]) -> None:
        self.task = task
        self.task_id = task_id
        self.carry_out = carry_out
        self.outcome: Any = None


_submitting: ContextVar[Submitting | None] = ContextVar("idempotent_submitting", default=None)


class SubmittedTask(IdentifiedTask):
    """Part of the mixin: ``submit()`` and ``submit_many()``."""

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
        from ..sending.send import submit

        self._check_submittable()
        stated = {"idempotency_key": idempotency_key, "scope": scope}
        options |= {name: value for name, value in stated.items() if value is not UNSET}
        submission: Submission = self._through(submit, args, kwargs, options)
        return submission

    def submit_many(
        self, calls: Iterable[Mapping[str, Any]], *, scope: object = UNSET, **options: Any
    ) -> list[Submission]:
        """Reserve many calls in one transaction, all or none; what ``submit`` says of each, in their order.

        A call is a mapping with the keywords of :meth:`submit`, or a signature ``task.s(...)``; what is
        given here holds for those that do not say otherwise. ``calls`` is read once, 1,000 at a time.
        Raises as ``submit`` does, naming the place of the call, and :class:`DuplicateTask` where another
        open transaction holds its key for over 2 seconds; nothing is written then.
        """
        from ..sending.many import submit_many

        self._check_submittable()
        options |= {} if scope is UNSET else {"scope": scope}
        return submit_many(self, self._policy(), calls, options, self._through)

    def idempotency_reserving(self) -> tuple[Policy, Callable[..., Any]]:
        """What reserves calls of this task: its policy, and the way through its ``apply_async``.

        Raises :class:`ConfigurationError` as :meth:`submit` does.
        """
        self._check_submittable()
        return self._policy(), self._through

    def _check_submittable(self) -> None:
        if not self.idempotency_guarded or self._policy().sensitive:
            msg = (
                f"{self.name} cannot be submitted: it is not guarded, is in shadow mode (enforce=False, or"
                " the setting ENFORCE), or has sensitive arguments. Send it with delay()."
            )
            raise ConfigurationError(msg)

    def _through(self, carry_out: Callable[..., Any], args: Any, kwargs: Any, options: dict[str, Any]) -> Any:
        """Send a call through ``apply_async``, at whose end it is carried out; what that gave."""
        submitting = Submitting(self, self.idempotency_task_id(options.pop("task_id", None)), carry_out)
        token = _submitting.set(submitting)
        try:
            self.apply_async(args, kwargs, task_id=submitting.task_id, **options)  # type: ignore[attr-defined]
        finally:
            _submitting.reset(token)
        if submitting.outcome is None:
            msg = f"{self.name}: an apply_async before IdempotentTaskMixin returned without calling super()."
            raise ConfigurationError(msg)
        return submitting.outcome

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
        from ..sending.prepared import Sending

        behind = super().apply_async  # type: ignore[misc]  # of the classes behind the mixin
        options = {**options, "headers": call.headers}
        sending = Sending(behind, args, kwargs, submitting.task_id, call.own, options)
        submitting.outcome = submitting.carry_out(self, self._policy(), sending)
        result = getattr(submitting.outcome, "result", None)
        return result or self.AsyncResult(submitting.task_id)  # type: ignore[attr-defined]
