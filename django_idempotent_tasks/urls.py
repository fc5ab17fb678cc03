"""``path("jobs/", include("django_idempotent_tasks.urls"))``: a job's status, and its end."""

from __future__ import annotations

from django.urls import path

from .http import JobCancelView, JobStatusView

app_name = "idempotent_tasks"

urlpatterns = [
    path("<str:task_id>/", JobStatusView.as_view(), name="status"),
    path("<str:task_id>/cancel/", JobCancelView.as_view(), name="cancel"),
]
