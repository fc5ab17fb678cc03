"""Shows a job to HTTP clients, and cancels it for them."""

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
    """The base of the views of a job. By default only the user whose key it is may see a job."""

    def may_see(self, request: HttpRequest, key: IdempotencyKey) -> bool:
        """Whether this request may see the job: by default only the user whose scope the key has."""
        user = getattr(request, "user", None)
        return user is not None and user.is_authenticated and key.scope == user_scope(user)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().dispatch(request, *args, **kwargs)
        except ObjectDoesNotExist:
            return problem(404, "not-found", "There is no such job, or it is not yours.")
        except DatabaseError:
            return problem(503, "ledger-down", "The ledger did not answer. Ask again.", SOON)

    def found(self, request: HttpRequest, task_id: str) -> IdempotencyKey | jobs.Replaced:
        """The key of a call, or how the call ended before a later call took its key.

        Raises ``DoesNotExist`` for an unknown id and for a job that this request may not see. Both take the
        same statements, so that the client does not learn which it was.
        """
        key = jobs.find(task_id)
        if key is not None and self.may_see(request, key):
            return key
        waiting = jobs.find_follow_up(task_id)
        if key is None and waiting is not None and self.may_see(request, waiting):
            return waiting
        replaced = jobs.find_replaced(task_id)
        if key is None and replaced is not None and self.may_see(request, replaced[1]):
            return replaced
        raise IdempotencyKey.DoesNotExist


class JobStatusView(JobView):
    """``GET``: the job's document; 404 for an unknown job, or one of another user."""

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
            return _ended(_replaced(*key))
        outcome = jobs.cancel(key)
        if key._state.adding:  # noqa: SLF001  a follow-up has no row
            key.state = State.CANCELLED if outcome == "cancelled" else key.state
        else:
            key.refresh_from_db()
        if outcome == "cancelled" or key.state == State.CANCELLED:
            return JsonResponse(job_document(key))
        return problem(409, outcome, "The job cannot be cancelled any more.", job=job_document(key))


def _replaced(call: AnsweredCall, key: IdempotencyKey) -> dict[str, Any]:
    return jobs.replaced_document(call, key) | {"cancel_url": None}


def _ended(job: dict[str, Any]) -> HttpResponse:
    """The answer to cancelling a call that ended before a later call took its key."""
    if job["state"] == State.CANCELLED.name.lower():
        return JsonResponse(job)
    return problem(409, "finished", "The job has ended, and a later call has its key now.", job=job)
