"""``path("jobs/", include("django_idempotent_tasks.urls"))``: how far jobs and batches are."""

from __future__ import annotations

from django.urls import path

from .http import BatchStatusView, JobCancelView, JobStatusView

app_name = "idempotent_tasks"

urlpatterns = [
    path("batches/<uuid:batch_id>/", BatchStatusView.as_view(), name="batch"),
    path("<str:task_id>/", JobStatusView.as_view(), name="status"),
    path("<str:task_id>/cancel/", JobCancelView.as_view(), name="cancel"),
]
