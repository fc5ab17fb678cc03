"""What the web server of a chaos run answers: calls by POST, and how far they are."""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from benchmarks.chaos.tasks import submitted
from django_idempotent_tasks.http import submit_response


def submit(request: HttpRequest) -> HttpResponse:
    """Submit the call that the client has sent."""
    arguments = json.loads(request.body)
    return submit_response(request, submitted, arguments, scope="chaos", key=arguments["key"])


urlpatterns = [path("calls/", submit), path("jobs/", include("django_idempotent_tasks.urls"))]
