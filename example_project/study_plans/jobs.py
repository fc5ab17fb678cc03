"""Status and end of a job for JSON clients, in the namespace that ``submit_response`` looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import path

from django_idempotent_tasks.http import JobCancelView, JobStatusView

from .access import schools_of
from .tasks import generate_plan

if TYPE_CHECKING:
    from django.http import HttpRequest

    from django_idempotent_tasks.models import IdempotencyKey


class OfTheSchool:
    """Jobs are for the teachers of the school that their scope names."""

    def may_see(self, request: HttpRequest, key: IdempotencyKey) -> bool:
        """Whether this request may know of the job."""
        return (
            request.user.is_authenticated
            and key.task == generate_plan.name
            and schools_of(request.user).filter(slug=key.scope).exists()
        )


class PlanStatusView(OfTheSchool, JobStatusView):
    """``GET``: the job's document."""


class PlanCancelView(OfTheSchool, JobCancelView):
    """``POST``: cancel the job."""


app_name = "idempotent_tasks"
urlpatterns = [
    path("<str:task_id>/", PlanStatusView.as_view(), name="status"),
    path("<str:task_id>/cancel/", PlanCancelView.as_view(), name="cancel"),
]
