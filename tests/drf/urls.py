"""A project's URLs with Django REST framework: a view and a view set that submit, and the views of jobs."""

from __future__ import annotations

from typing import Any

from django.urls import include, path
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from django_idempotent_tasks.drf import SubmitMixin, SubmitRateThrottle, job_urls, submits

#: The task that is submitted.
TASK: list[Any] = []


class TextRenderer(JSONRenderer):
    """JSON under another name: a format of the project's own."""

    media_type, format = "application/vnd.shop+json", "shop"


class Twice(SubmitRateThrottle):
    """Two new jobs an hour."""

    rate = "2/hour"


class PlanView(SubmitMixin, APIView):
    """POST /plans/."""

    renderer_classes = [JSONRenderer, TextRenderer]

    @submits()
    def post(self, request: Any) -> Response:
        """Submit what the client has sent."""
        return self.submit(TASK[-1], request.data)


class RatedView(PlanView):
    """POST /rated/."""

    throttle_classes = [Twice]


class PlanViewSet(SubmitMixin, ViewSet):
    """POST /orders/7/: the work is named by the view."""

    @submits(header=False)
    def create(self, request: Any, order_id: int) -> Response:  # noqa: ARG002  DRF's own signature
        """Submit the order's work."""
        return self.submit(TASK[-1], {"order_id": order_id}, key=order_id)


urlpatterns = [
    path("plans/", PlanView.as_view()),
    path("rated/", RatedView.as_view()),
    path("orders/<int:order_id>/", PlanViewSet.as_view({"post": "create"})),
    path("jobs/", include(job_urls)),
]
