"""A project's URLs: views that submit a call or an upload, and the views of jobs and batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt

from django_idempotent_tasks.http import asubmit_response, batch_response, submit_response

#: The task that is submitted, and what the view states by itself.
TASK: list[Any] = []
STATED: dict[str, Any] = {}


def _arguments(request: HttpRequest) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(request.body)
    return found


@csrf_exempt
def submit(request: HttpRequest) -> HttpResponse:
    """POST /plans/."""
    return submit_response(request, TASK[-1], _arguments(request), **STATED)


@csrf_exempt
async def asubmit(request: HttpRequest) -> HttpResponse:
    """POST /aplans/."""
    return await asubmit_response(request, TASK[-1], _arguments(request), **STATED)


@csrf_exempt
def upload(request: HttpRequest) -> HttpResponse:
    """POST /uploads/."""
    return batch_response(request, TASK[-1], json.loads(request.body), chunk_size=2, **STATED)


@csrf_exempt
@transaction.atomic
def broken(request: HttpRequest) -> HttpResponse:
    """POST /broken/: accepts, and then fails, as a view under ATOMIC_REQUESTS may."""
    assert submit(request).status_code == 202
    raise RuntimeError


urlpatterns = [
    path("broken/", broken),
    path("uploads/", upload),
    path("plans/", submit),
    path("aplans/", asubmit),
    path("jobs/", include("django_idempotent_tasks.urls")),
]
