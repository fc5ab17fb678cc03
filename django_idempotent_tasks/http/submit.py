"""``submit_response``: reserves a call under the request's ``Idempotency-Key``, and answers with its job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse

from ..exceptions import ConfigurationError, InvalidKey, KeyReused, PayloadTooLarge
from ..models import DEAD, IdempotencyKey
from ..operations.lookup import get_key
from ..states import LIVE
from . import jobs
from .answers import SOON, job_document, problem, url_of
from .requests import HEADER, Refused, key_of, scope_of


def submit_response(
    request: HttpRequest,
    task: Any,
    kwargs: Mapping[str, Any],
    *,
    scope: str | None = None,
    key: object = None,
) -> HttpResponse:
    """Reserve a call of ``task`` under the request's key, and answer with its job.

    The key is the header ``Idempotency-Key``, or ``key``: any value that names the work, and the value of
    the task's own ``key`` names the same key. The key is bound to ``scope``, else to the signed-in user.
    202 and ``Location`` for a new job; 409 and ``Retry-After`` while the accepted job is unfinished; 200
    and ``Idempotent-Replayed: true`` once the job has ended, whatever its ``state``. A failed job under
    ``key`` may be submitted again, as the task's ``on_failed`` says. 422 for another payload under the
    key; 400 without a key, with a bad key, or with arguments that do not fit; 413 for arguments above
    ``MAX_PAYLOAD``; 401 without a scope or a user; 503 when the ledger does not answer: sending the same
    request again is safe. Raises :class:`ConfigurationError` for a task that cannot be submitted.
    """
    try:
        whose = scope_of(request, scope)
        if key is not None:  # the key names the work, not the request
            return _submitted(task, kwargs, key, scope=whose, is_request=False)
        return _submitted(task, kwargs, key_of(request), scope=whose, is_request=True)
    except Refused as refused:
        return refused.response


async def asubmit_response(
    request: HttpRequest, task: Any, kwargs: Mapping[str, Any], **named: Any
) -> HttpResponse:
    """:func:`submit_response` for asynchronous views."""
    return await sync_to_async(partial(submit_response, request, task, kwargs, **named))()


def _submitted(
    task: Any, kwargs: Mapping[str, Any], key: object, *, scope: str, is_request: bool
) -> HttpResponse:
    if not getattr(task, "idempotency_guarded", False):
        msg = f"{task.name} cannot be submitted: give it base=IdempotentTask."
        raise ConfigurationError(msg)
    if not isinstance(kwargs, Mapping):  # a view may pass on the client's JSON as it is
        return problem(400, "bad-arguments", "The arguments must be an object, by name.")  # type: ignore[unreachable]
    try:
        ended = _replay_of_failed(task, kwargs, key, scope=scope) if is_request else None
        if ended is not None:
            return ended
        submission = task.submit(kwargs=dict(kwargs), idempotency_key=key, scope=scope)
        row = None if submission.result is None else _row_of(submission.result.id)
    except (KeyReused, InvalidKey, PayloadTooLarge, DatabaseError, TypeError) as error:
        return not_accepted(error)
    if row is None:  # another open transaction has the key
        return _held(None)
    if submission.created:
        return _job(row, 202)
    return _held(row) if row.state in LIVE else _job(row, 200, {"Idempotent-Replayed": "true"})


def _row_of(task_id: str) -> IdempotencyKey | None:
    return jobs.find(task_id) or jobs.find_follow_up(task_id)


def _replay_of_failed(
    task: Any, kwargs: Mapping[str, Any], key: object, *, scope: str
) -> HttpResponse | None:
    """The answer for a key that has failed: a repeated request is answered, its work never runs again."""
    row = get_key(task, idempotency_key=key, scope=scope)
    if row is None or row.state not in DEAD or row.discarded_at is not None:
        return None
    given = task.idempotency_identity((), dict(kwargs), idempotency_key=key, scope=scope).fingerprint
    if None not in {given, row.fingerprint} and given != row.fingerprint:
        raise KeyReused
    return _job(row, 200, {"Idempotent-Replayed": "true"})


def not_accepted(error: Exception) -> HttpResponse:
    """The answer to a submission that raised one of the errors that a client can mend, or wait out."""
    if isinstance(error, KeyReused):
        text = f"This {HEADER} was used with another request. Send a new key for new work."
        return problem(422, "key-reused", text)
    if isinstance(error, InvalidKey):
        return problem(400, "invalid-key", str(error))
    if isinstance(error, PayloadTooLarge):
        text = "The arguments are too large. Upload large data, and send a reference to it."
        return problem(413, "payload-too-large", text)
    if isinstance(error, TypeError):
        return problem(400, "bad-arguments", f"The arguments do not fit: {error}.")
    return problem(
        503, "ledger-down", "The ledger did not answer. Send the request again, with the same key.", SOON
    )


def _held(row: IdempotencyKey | None) -> HttpResponse:
    """409: a call with this key is accepted and not finished."""
    headers = {"Retry-After": str(jobs.retry_after(row))}
    if row is None:
        return problem(409, "in-progress", "The same request is being accepted at this moment.", headers)
    text = "The same request was accepted and is not finished."
    return problem(409, "in-progress", text, headers | _location(row), job=job_document(row))


def _job(row: IdempotencyKey, status: int, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return JsonResponse(job_document(row), status=status, headers={**_location(row), **(headers or {})})


def _location(row: IdempotencyKey) -> dict[str, str]:
    url = url_of("status", row.task_id)
    return {} if url is None else {"Location": url}
