"""Builds the answers of the HTTP views: a job's document, and problem documents (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.urls import NoReverseMatch, reverse

from ..models import IdempotencyKey
from ..states import LIVE
from . import jobs

#: The header of answers while the ledger does not answer.
SOON = {"Retry-After": "5"}


def job_document(key: IdempotencyKey) -> dict[str, Any]:
    """What a client may know of a key's present call, for pages of your own; never a traceback."""
    return jobs.document(key) | {"cancel_url": url_of("cancel", key.task_id) if key.state in LIVE else None}


def url_of(name: str, task_id: str) -> str | None:
    """The URL of a job's view; None in a project that does not include the package's URLs."""
    try:
        return reverse(f"idempotent_tasks:{name}", args=[task_id])
    except NoReverseMatch:
        return None


def user_scope(user: Any) -> str:
    """The scope of a signed-in user's keys."""
    return f"user:{user.pk}"


def problem(
    status: int,
    kind: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    *,
    job: dict[str, Any] | None = None,
) -> HttpResponse:
    """A problem document; ``job`` is the document of the job that has the key."""
    content: dict[str, Any] = {"type": f"urn:django-idempotent-tasks:{kind}", "status": status}
    content |= {"detail": detail} | ({} if job is None else {"job": job})
    return JsonResponse(
        content, status=status, content_type="application/problem+json", headers={**(headers or {})}
    )
