"""The page of metrics: for a scraper that has the token, and for users who may see keys."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.db import connection
from django.http import HttpResponse
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

pytest.importorskip("prometheus_client")

from django_idempotent_tasks.exceptions import ConfigurationError
from django_idempotent_tasks.metrics import prometheus
from django_idempotent_tasks.metrics.views import MetricsView

pytestmark = pytest.mark.django_db

TOKEN = "a-token-of-the-scraper"


def scraped(user: Any = None, *, token: str | None = TOKEN, **headers: str) -> HttpResponse:
    request = RequestFactory().get("/metrics", headers=headers)
    request.user = user or AnonymousUser()
    response: HttpResponse = MetricsView.as_view(token=token)(request)
    return response


def test_the_token_opens_the_view() -> None:
    response = scraped(Authorization=f"Bearer {TOKEN}")
    assert (response.status_code, response["Content-Type"]) == (200, prometheus.CONTENT_TYPE)
    assert "no-store" in response["Cache-Control"]
    assert "\nidempotent_tasks_ledger_up 1.0\n" in response.content.decode()


@pytest.mark.parametrize(
    "given", ["", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xe4"]
)
def test_without_the_token_there_is_nothing(given: str) -> None:
    with CaptureQueriesContext(connection) as asked:
        response = scraped(Authorization=given)
    assert (response.status_code, response["WWW-Authenticate"]) == (401, "Bearer")
    assert b"idempotent" not in response.content
    assert len(asked) == 0


def test_without_a_token_of_the_view_no_token_opens_it() -> None:
    assert scraped(token=None, Authorization="Bearer None").status_code == 401


def test_a_user_who_may_see_keys_sees_metrics() -> None:
    user = User.objects.create(username="operator")
    assert scraped(user).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_idempotencykey"))
    assert scraped(User.objects.get()).status_code == 200


@pytest.mark.parametrize("token", ["", "  ", 7])
def test_a_token_that_anybody_could_guess_is_refused_at_once(token: Any) -> None:
    with pytest.raises(ConfigurationError, match="token must be a text"):
        MetricsView.as_view(token=token)
