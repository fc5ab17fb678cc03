"""``batch_response`` submits an upload as a batch, and ``BatchStatusView`` tells clients how far it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import NoReverseMatch, reverse
from django.views import View

from ..conf import settings
from ..exceptions import InvalidKey, KeyReused, PayloadTooLarge
from ..models import Batch, BatchState
from ..operations.batch_counts import numbers, share
from ..operations.batches import submit_batch
from . import jobs
from .answers import SOON, problem, user_scope
from .requests import Refused, key_of, scope_of
from .submit import not_accepted

_ENDED = (BatchState.FINISHED, BatchState.CANCELLED)


def batch_response(
    request: HttpRequest,
    task: Any,
    records: Iterable[Any],
    *,
    scope: str | None = None,
    key: object = None,
    **options: Any,
) -> HttpResponse:
    """Submit ``records`` as a batch under the request's key, and answer with its document.

    The key is the header ``Idempotency-Key``, or ``key``: any value that names the upload. It is bound to
    ``scope``, else to the signed-in user. ``options`` are those of ``submit_batch``. 202 and ``Location``
    for a new batch; 409 and ``Retry-After`` while the same upload is unfinished, also where this request has
    gone on with a submission that was broken off; 200 and ``Idempotent-Replayed: true`` once it has ended.
    422 for other records under the key; other problems are those of ``submit_response``. What ``records``
    raises goes on to the view. Raises :class:`ConfigurationError` for a task that cannot have a batch.
    """
    try:
        whose = scope_of(request, scope)
        named = key_of(request) if key is None else key
    except Refused as refused:
        return refused.response
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        return problem(400, "bad-arguments", "The records must be a list.")  # a client's JSON as it is
    try:
        batch = submit_batch(task, records, batch_key=named, scope=whose, **options)
        row = _row(batch.id)
    except (KeyReused, InvalidKey, PayloadTooLarge, DatabaseError) as error:
        return not_accepted(error)
    if batch.created:
        return _answer(row, 202)
    return _held(row) if row.state not in _ENDED else _answer(row, 200, {"Idempotent-Replayed": "true"})


class BatchStatusView(View):
    """``GET``: the batch's document; 404 for an unknown batch, or one of another user.

    By default only the user whose scope the batch has may see it.
    """

    http_method_names = ["get", "head", "options"]

    def may_see(self, request: HttpRequest, batch: Batch) -> bool:
        """Whether this request may see the batch: by default only the user whose scope it has."""
        user = getattr(request, "user", None)
        return user is not None and user.is_authenticated and batch.scope == user_scope(user)

    def get(self, request: HttpRequest, batch_id: UUID) -> HttpResponse:
        try:
            row = _row(batch_id)
            if not self.may_see(request, row):
                raise Batch.DoesNotExist
            headers = {"Cache-Control": "no-store"}
            headers |= {} if row.state in _ENDED else {"Retry-After": str(jobs.LOOK)}
            return JsonResponse(batch_document(row), headers=headers)
        except ObjectDoesNotExist:
            return problem(404, "not-found", "There is no such batch, or it is not yours.")
        except DatabaseError:
            return problem(503, "ledger-down", "The ledger did not answer. Ask again.", SOON)


def batch_document(batch: Batch) -> dict[str, Any]:
    """What a client may know of a batch, for pages of your own: how far it is, never a record or an error."""
    found = numbers(batch._state.db or settings().database, [batch.id])[batch.id]  # noqa: SLF001  where it was read
    return {
        "id": str(batch.id),
        "task": batch.task,
        "state": BatchState(batch.state).name.lower(),
        "created": jobs.moment_text(batch.created_at),
        "sealed": jobs.moment_text(batch.sealed_at),
        "finished": jobs.moment_text(batch.finished_at),
        "progress": share(found, sealed=batch.sealed_at is not None),
        **found.facts(),
    }


def _row(batch: UUID) -> Batch:
    rows = Batch.objects.using(settings().database)
    return rows.defer("callback", "on_attention").get(pk=batch)


def _held(row: Batch) -> HttpResponse:
    """409: the same upload is accepted and not finished."""
    headers = {"Retry-After": str(jobs.LATEST), **_location(row)}
    text = "The same upload was accepted and is not finished."
    return problem(409, "in-progress", text, headers, job=batch_document(row))


def _answer(row: Batch, status: int, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return JsonResponse(batch_document(row), status=status, headers={**_location(row), **(headers or {})})


def _location(row: Batch) -> dict[str, str]:
    try:
        return {"Location": reverse("idempotent_tasks:batch", args=[row.id])}
    except NoReverseMatch:  # the project does not include the package's URLs
        return {}
