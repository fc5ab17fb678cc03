"""The views of a job: ask about it, cancel it."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import View

from ..models import AnsweredCall, IdempotencyKey
from ..states import LIVE, State
from . import jobs
from .answers import SOON, job_document, problem, user_scope


class JobView(View):
    """What the views of a job share. Who may see it is the project's to say; nobody may by default."""

    def may_see(self, request: HttpRequest, key: IdempotencyKey) -> bool:
        """Whether this request may know of the job: by default only the user that the key is bound to."""
        user = getattr(request, "user", None)
        return user is not None and user.is_authenticated and key.scope == user_scope(user)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().dispatch(request, *args, **kwargs)
        except ObjectDoesNotExist:
            return problem(404, "not-found", "There is no such job, or it is not yours.")
        except DatabaseError:
            return problem(503, "ledger-down", "Ask again.", SOON)

    def found(self, request: HttpRequest, task_id: str) -> IdempotencyKey | jobs.Replaced:
        """The key of a call, or how it ended before a later call took its key; raises ``DoesNotExist``.

        An id that is unknown and one that this request may not see take the same statements: who asks
        must not learn that it is there.
        """
        key = jobs.find(task_id)
        if key is not None and self.may_see(request, key):
            return key
        replaced = jobs.find_replaced(task_id)
        if key is None and replaced is not None and self.may_see(request, replaced[1]):
            return replaced
        raise IdempotencyKey.DoesNotExist


class JobStatusView(JobView):
    """``GET``: the job's document; 404 for one that is unknown or another's."""

    http_method_names = ["get", "head", "options"]

    def get(self, request: HttpRequest, task_id: str) -> HttpResponse:
        key, headers = self.found(request, task_id), {"Cache-Control": "no-store"}
        if not isinstance(key, IdempotencyKey):
            return JsonResponse(_replaced(*key), headers=headers)
        if key.state in LIVE:
            headers["Retry-After"] = str(jobs.look_after(key))
        return JsonResponse(job_document(key), headers=headers)


class JobCancelView(JobView):
    """``POST``: cancel the job. 200 when it is cancelled; 409 when it has ended, or is ending now."""

    http_method_names = ["post", "options"]

    def post(self, request: HttpRequest, task_id: str) -> HttpResponse:
        key = self.found(request, task_id)
        if not isinstance(key, IdempotencyKey):
            return _over(_replaced(*key))
        outcome = jobs.cancel(key)
        key.refresh_from_db()
        if outcome == "cancelled" or key.state == State.CANCELLED:
            return JsonResponse(job_document(key))
        return problem(409, outcome, "It cannot be cancelled any more.", job=job_document(key))


def _replaced(call: AnsweredCall, key: IdempotencyKey) -> dict[str, Any]:
    return jobs.replaced_document(call, key) | {"cancel_url": None}


def _over(job: dict[str, Any]) -> HttpResponse:
    """Of a call that ended before a later one took its key."""
    if job["state"] == State.CANCELLED.name.lower():
        return JsonResponse(job)
    return problem(409, "finished", "It is over: a later call has its key by now.", job=job)
