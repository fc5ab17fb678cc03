"""Puts the entries of the admin's index in the order of use: the dashboard first, internals last."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.admin import AdminSite
from django.db import Error as DatabaseError
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import ngettext

from ...operations.status import look
from ..words.ledger import alias, store
from .needs import Line, needs

logger = logging.getLogger("django_idempotent_tasks")

APP = "django_idempotent_tasks"
#: The models as people need them; one that is not named comes before the internals.
FIRST = (
    "Dashboard", "IdempotencyKey", "DeadLetter", "FailedJob", "Batch", "RedriveOperation", "Pause",
    "BeatCursor", "DuplicateAttempt",
)  # fmt: skip
LAST = ("AnsweredCall", "HourlyCount")
#: The pages whose entry of the dashboard says how much needs a person: the admin's first, and our app's.
_COUNTED_ON = {"index", "app_list"}
_KEPT = "_idem_needs"


def arrange(site: AdminSite) -> None:
    """Let ``site`` list our entries in this order; other apps stay as they are.

    Around the site's own method, so that a site that makes its list otherwise keeps that.
    """
    own = site.get_app_list

    def get_app_list(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        apps: Any = own(request, *args, **kwargs)
        for app in apps:
            if app["app_label"] == APP:
                _arranged(request, app)
        return apps

    if not hasattr(own, "arranges"):
        get_app_list.arranges = APP  # type: ignore[attr-defined]  # a mark of ours
        site.get_app_list = get_app_list  # type: ignore[method-assign]  # of this one site


def _arranged(request: HttpRequest, app: dict[str, Any]) -> None:
    app["models"].sort(key=_place)
    match = request.resolver_match
    if match is None or match.url_name not in _COUNTED_ON:
        return
    for entry in app["models"]:
        if entry["object_name"] == "Dashboard":
            app["idem_needs"] = found = _needs(request)
            words = ngettext("%(count)s needs a person", "%(count)s need a person", len(found))
            if found:
                entry["name"] = f"{entry['name']} ({words % {'count': len(found)}})"


def _place(entry: dict[str, Any]) -> tuple[int, str]:
    name = str(entry["object_name"])
    if name in FIRST:
        return FIRST.index(name), ""
    return len(FIRST) + (name in LAST), str(entry["name"])


def _needs(request: HttpRequest) -> list[Line]:
    """What needs a person, read once for a request; nothing where the ledger cannot be read."""
    found: list[Line] | None = getattr(request, _KEPT, None)
    if found is None:
        found = _read(request)
        setattr(request, _KEPT, found)
    return found


def _read(request: HttpRequest) -> list[Line]:
    try:
        with transaction.atomic(using=alias()):  # what fails must not spoil a transaction of the request
            return needs(request, look(store()))
    except DatabaseError as error:
        logger.warning("The admin's index cannot say what needs a person: %r", error)
        return []
