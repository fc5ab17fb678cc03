"""The task class, ``base=IdempotentTask``. It imports no model, so that ``celery.py`` may load it early."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import Any, ClassVar

from celery import Celery, Task
from celery.contrib.django.task import DjangoTask
from celery.utils import uuid
from django.db import DEFAULT_DB_ALIAS, connections, transaction

from ..conf.options import Policy, read_policy
from ..errors.raised import anew
from ..exceptions import ConfigurationError
from ..identity.rules import UNSET
from ..messages.adopting import of_a_call
from ..messages.masking import masked_reprs
from ..messages.stamping import Passage, Send
from ..running import handlers
from ..running.context import Idempotency, active
from ..running.unguarded import Detached
from .canvas import is_applied_by_a_canvas, sends_a_canvas
from .generics import P, R_co
from .guard import UNREAD, answer_to_earlier_names, has_calls_behind, is_guarded, unset_late_acks
from .identified import Identified
from .observed import ObservedTask

#: The request whose body the ``__call__`` of a class behind ours is about to call.
_entering: ContextVar[Any] = ContextVar("idempotent_body", default=None)


@cache
def _runner() -> ModuleType:
    from ..running import runner  # needs the models, which may not exist when this module loads

    return runner


class IdempotentTaskMixin(ObservedTask, Task[P, R_co]):
    """Guards a Celery task: its effects happen once per key, whatever the broker or the worker does.

    Options are decorator keywords or class attributes (``key``, ``scope``, ``lease`` ...). They are
    checked when Celery creates the task; a task with a bad one stays registered, and every send and
    call of it raises :class:`ConfigurationError`. A direct call, ``task(...)``, is a plain call.
    Sets ``acks_late`` and ``reject_on_worker_lost``.
    """

    acks_late = True
    reject_on_worker_lost = True

    #: What is wrong with the options, None when nothing is.
    idempotency_error: ClassVar[ConfigurationError | None] = UNREAD
    #: Whether this task is guarded: not those that only inherit the class from ``Celery(task_cls=...)``.
    idempotency_guarded: ClassVar[bool] = True
    idempotency_policy: ClassVar[Policy]
    _has_calls_behind: ClassVar[bool] = False

    @classmethod
    def on_bound(cls, app: Celery) -> None:
        """Read and check the options (a documented hook of Celery, called when the task is created)."""
        super().on_bound(app)
        try:
            cls.idempotency_error = None
            cls.idempotency_guarded = is_guarded(cls, app, IdempotentTaskMixin)
            cls._has_calls_behind = has_calls_behind(cls, IdempotentTaskMixin)
            if cls.idempotency_guarded:
                cls.idempotency_policy = read_policy(cls)
                answer_to_earlier_names(cls, app)
                cls.idempotency_observed = not cls.idempotency_policy.enforce
                cls.idempotency_guarded = cls.idempotency_policy.enforce
            if cls.idempotency_guarded:
                # Celery logs at INFO what ``throws`` names.
                policy: Any = cls.idempotency_policy
                cls.throws = (*policy.throws, *policy.expected_errors)
                handlers.wrap_hooks(cls)
        except ConfigurationError as error:
            cls.idempotency_error = error
        if not cls.idempotency_guarded:
            unset_late_acks(cls, app)

    @property
    def idempotency(self) -> Idempotency:
        """The running attempt: key, token, ``downstream_key()``, ``complete()`` ..."""
        attempt = active()
        if attempt is not None and attempt.request is self.request_stack.top:
            handle: Idempotency = attempt.handle
            return handle
        return Detached(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Claim, run and settle in a worker or eagerly; a direct call only runs the body."""
        if self.idempotency_error is not None:
            raise anew(self.idempotency_error)
        request = self.request
        attempt = active()
        if request.called_directly or (attempt is not None and attempt.request is request):
            # Or a worker's optimised __call__ would run the first such call inside our request.
            vars(request)["_protected"] = 1
            if _entering.get() is request:
                _entering.set(None)
            return super().__call__(*args, **kwargs)
        result: R_co
        if not (self.idempotency_guarded or self.idempotency_observed):
            result = self.idempotency_body(*args, **kwargs)
            return result
        result = _runner().run(self, request, self.idempotency_policy, args, kwargs)
        return result

    def idempotency_body(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body inside the ``__call__`` of the classes behind this one."""
        given = list(args)
        handlers.start(self, given, kwargs)
        if not self._has_calls_behind:
            return self.run(*given, **kwargs)
        token = _entering.set(self.request_stack.top)
        try:
            return super().__call__(*given, **kwargs)
        finally:
            _entering.reset(token)

    def push_request(self, *args: Any, **kwargs: Any) -> None:
        """Begin a request, as Celery does; the call that enters the body stays in its delivery's request."""
        request = _entering.get()
        if request is not None and request is self.request_stack.top:
            _entering.set(None)
            self.request_stack.push(request)
        else:
            super().push_request(*args, **kwargs)

    def apply_async(  # noqa: PLR0913  Celery's own
        self,
        args: Any = None,
        kwargs: Any = None,
        task_id: Any = None,
        producer: Any = None,
        link: Any = None,
        link_error: Any = None,
        shadow: Any = None,
        *,
        idempotency_key: object = UNSET,
        scope: object = UNSET,
        headers: Any = None,
        **options: Any,
    ) -> Any:
        """Send as Celery does, with the call's identity in its header.

        ``idempotency_key`` replaces the task's ``key`` and ``scope`` its ``scope`` for this call.
        Raises :class:`InvalidKey` for a value that has no canonical form; nothing was sent then.
        With ``reserve=True`` the key's row is written in the open transaction and the message goes
        out after its commit; a duplicate gets the accepted call's result, with ``.duplicate`` true.
        Raises :class:`KeyReused` for another payload under the key, and :class:`DuplicateTask` where
        ``on_duplicate="raise"`` or when another transaction holds the key for over 2 seconds.
        """
        options |= {"producer": producer, "link": link, "link_error": link_error, "shadow": shadow}
        submitting = self._submitting()
        if submitting is not None:
            self._refuse_misspelt(options)
            call = self._identified(args, kwargs, submitting.task_id, headers, idempotency_key, scope)
            return self._submitted(submitting, args, kwargs, options, call)
        if (attempt := active()) is not None and attempt.captures(self, {"task_id": task_id, **options}):
            return self._captured(attempt, args, kwargs, task_id, headers=headers, **options)
        send = super().apply_async  # by name: the class behind may take no more than arguments by position
        if not self.idempotency_guarded or isinstance(producer, Passage):  # beat, which has the key already
            stated = (idempotency_key, scope)
            return self._sent_unguarded(send, args, kwargs, task_id, headers, stated, options)
        self._refuse_misspelt(options)
        task_id, in_canvas = self.idempotency_task_id(task_id), sends_a_canvas(options)
        call = self._identified(args, kwargs, task_id, headers, idempotency_key, scope, in_canvas)
        return self._sent(send, args, kwargs, task_id, options, call)

    def _sent(
        self, send: Send, args: Any, kwargs: Any, task_id: str, options: dict[str, Any], call: Identified
    ) -> Any:
        """Send an identified call: leave it to the running attempt, reserve it, or send as Celery does."""
        attempt, policy = active(), self._policy()
        options = {**masked_reprs(policy, args, kwargs), **options, "headers": call.headers}
        if attempt is not None and attempt.continues(self, task_id, call.own.header):
            return self._captured(attempt, args, kwargs, task_id, **options)
        if call.is_copy or not self._reserves():
            return send(args, kwargs, task_id=task_id, **of_a_call(self, args, kwargs, options))
        from ..sending.prepared import Sending
        from ..sending.send import accept

        return accept(self, policy, Sending(send, args, kwargs, task_id, call.own, options))

    def cancel(
        self,
        *,
        task_id: str | None = None,
        idempotency_key: object = UNSET,
        scope: object = None,
        terminate: bool = False,
    ) -> str:
        """Cancel the work of a call or a key, in the open transaction if there is one.

        Returns ``"cancelled"``, ``"finished"`` (it ended before), ``"finishing"`` (its completion
        holds the row now) or ``"not_found"``. A body that runs is not interrupted unless
        ``terminate``, but it can no longer complete.
        """
        from ..operations.cancel import cancel

        return cancel(
            self, task_id=task_id, idempotency_key=idempotency_key, scope=scope, terminate=terminate
        )

    def delay_on_commit(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """``delay`` once the open transaction commits; with ``reserve=True`` the same as ``delay``."""
        return self.apply_async_on_commit(args, kwargs)

    def apply_async_on_commit(self, *args: Any, **options: Any) -> Any:
        """``apply_async`` once the open transaction commits; with ``reserve=True`` the same as it.

        Raises TransactionManagementError where Django would not report that commit.
        """
        if self.idempotency_guarded and self._reserves():
            return self.apply_async(*args, **options)

        def send() -> None:
            self.apply_async(*args, **options)

        if not self.app.conf.task_always_eager:
            from ..ledger.stores.commits import check_reported

            check_reported(self.name, connections[DEFAULT_DB_ALIAS])
        return transaction.on_commit(send)

    def replace(self, sig: Any) -> Any:
        """Replace as Celery does; duplicates in a canvas go on with ``sig`` too. May raise RuntimeError."""
        attempt = active()
        if self.request.is_eager or attempt is None or attempt.request is not self.request_stack.top:
            return super().replace(sig)
        return attempt.replace(sig, super().replace)

    def signature_from_request(
        self, request: Any = None, args: Any = None, kwargs: Any = None, queue: Any = None, **options: Any
    ) -> Any:
        """Build a signature as Celery does; one for ``self.retry()`` keeps the call's id and key."""
        sig = super().signature_from_request(request, args, kwargs, queue, **options)
        attempt = active()
        if attempt is not None and attempt.is_retried_by(self, request or self.request, options):
            attempt.keep_named(sig)
        return sig

    subtask_from_request = signature_from_request

    def apply(  # type: ignore[override]  # options by keyword only, as everybody writes them
        self,
        args: Any = None,
        kwargs: Any = None,
        *,
        task_id: Any = None,
        idempotency_key: object = UNSET,
        scope: object = UNSET,
        headers: Any = None,
        **options: Any,
    ) -> Any:
        """Run here as Celery does, under the same identity as ``apply_async`` would give."""
        passage = options.get("router")
        if isinstance(passage, Passage):  # sent in eager mode: the call runs once its row is written
            passage.applied(args, kwargs, {**options, "task_id": task_id, "headers": headers})
            return self.AsyncResult(str(task_id))
        in_canvas = is_applied_by_a_canvas()
        is_stated = idempotency_key is not UNSET or scope is not UNSET
        if self.idempotency_observed and is_stated:
            task_id = task_id or uuid()
            headers = self._observed_headers(args, kwargs, task_id, headers, (idempotency_key, scope))
        elif self.idempotency_guarded and (is_stated or in_canvas):
            task_id = task_id or uuid()
            if args is not None and not isinstance(args, list | tuple):
                args = tuple(args)  # Celery takes any iterable here
            call = self._identified(args, kwargs, task_id, headers, idempotency_key, scope, in_canvas)
            headers = call.headers
        return super().apply(args, kwargs, task_id=task_id, headers=headers, **options)

    def _captured(self, attempt: Any, args: Any, kwargs: Any, task_id: Any, **options: Any) -> Any:
        """Leave a call to the running attempt, which publishes it after the ledger has recorded it."""
        attempt.capture(
            args, kwargs, {"task_id": task_id, **masked_reprs(self._policy(), args, kwargs), **options}
        )
        return self.AsyncResult(task_id)

    def _reserves(self) -> bool:
        from ..sending.send import reserves

        return reserves(self, self._policy())


class IdempotentTask(IdempotentTaskMixin[P, R_co], DjangoTask[P, R_co]):
    """Celery's task for Django, guarded."""

    abstract = True
