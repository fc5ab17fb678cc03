"""Serves the metrics over HTTP to who has the token or may see keys."""

from __future__ import annotations

from hmac import compare_digest
from importlib.util import find_spec
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

from ..exceptions import ConfigurationError

PERMISSION = "django_idempotent_tasks.view_idempotencykey"
_SCHEME = "Bearer "


@method_decorator([never_cache, transaction.non_atomic_requests], name="dispatch")
class MetricsView(View):
    """``path("metrics", MetricsView.as_view(token=...))``: for Prometheus, with ``Authorization: Bearer``.

    Without a token, or with another one: for users who may see keys. Raises :class:`ConfigurationError` as
    it is set up for an empty token, and where prometheus-client is not installed.
    """

    http_method_names = ["get", "head", "options"]
    #: What a scraper sends. None: only users.
    token: str | None = None

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Check the token and the library now, not at the first scrape."""
        token = initkwargs.get("token", cls.token)
        if token is not None and (not isinstance(token, str) or not token.strip()):
            raise ConfigurationError(
                "MetricsView: token must be a text that is not empty, or None: no token."
            )
        if find_spec("prometheus_client") is None:
            msg = "MetricsView needs prometheus_client: pip install prometheus-client."
            raise ConfigurationError(msg)
        return super().as_view(**initkwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The metrics as text; 401 without a token or a user, 403 for a user who may not see keys."""
        if not (self._has_token(request) or self._is_permitted(request)):
            return self._refused(request)
        from .prometheus import CONTENT_TYPE, exposition  # noqa: PLC0415  only who serves them needs the library

        return HttpResponse(exposition(), content_type=CONTENT_TYPE)

    def _has_token(self, request: HttpRequest) -> bool:
        given = request.headers.get("Authorization", "")
        if self.token is None or not given.startswith(_SCHEME):
            return False
        return compare_digest(given.removeprefix(_SCHEME).encode(), self.token.encode())

    def _is_permitted(self, request: HttpRequest) -> bool:
        user = getattr(request, "user", None)
        return user is not None and user.has_perm(PERMISSION)

    def _refused(self, request: HttpRequest) -> HttpResponse:
        if getattr(getattr(request, "user", None), "is_authenticated", False):
            return HttpResponse("You may not see keys.\n", status=403, content_type="text/plain")
        refused = HttpResponse("A token is needed.\n", status=401, content_type="text/plain")
        refused["WWW-Authenticate"] = "Bearer"
        return refused
