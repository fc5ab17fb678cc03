"""Every page of ours answers under the theme of ``THEME``: ``test_themes.py`` runs it in an own process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils.html import conditional_escape

from django_idempotent_tasks.models import DeadLetter, IdempotencyKey
from tests.admin.conftest import APP, keys, root, seen
from tests.admin.hostile import shop, spoil
from tests.admin.test_failed_jobs import sent
from tests.beat.conftest import bench

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["bench", "keys", "root", "sent", "shop"]

#: What only this theme puts on its pages.
MARKS = {"django": "/admin/css/base.css", "unfold": "/unfold/css/", "jazzmin": "/jazzmin/css/"}


def named() -> Iterator[tuple[Any, str]]:
    """The name of each address of ours, with its model's rows: they are asked for by their ids."""
    site: Any = admin.site
    for model, model_admin in site._registry.items():
        if model._meta.app_label == APP:
            for pattern in model_admin.get_urls():
                if pattern.name:
                    yield model, pattern.name


def addresses() -> Iterator[str]:
    """Each address of ours: of those of a row the ones of every row."""
    yield reverse("admin:index")
    yield reverse("admin:app_list", args=[APP])
    for model, name in named():
        try:
            yield reverse(f"admin:{name}")
        except NoReverseMatch:
            rows = list(model._default_manager.all())
            assert rows, name
            yield from (reverse(f"admin:{name}", args=[row.pk]) for row in rows)


def opened(client: Client) -> dict[str, str]:
    """The page of each address that has one for a person who may do everything."""
    pages = {}
    for url in addresses():
        shown = client.get(url, follow=True)
        is_closed = url.endswith(("/add/", "/delete/"))
        assert shown.status_code == (403 if is_closed else 200), (url, shown.status_code)
        if not shown.streaming:  # a file has no frame
            pages[url] = shown.content.decode()
    return pages


@pytest.mark.usefixtures("shop")
def test_every_page_answers(root: Client) -> None:
    theme = os.environ["THEME"]
    assert all(apps.is_installed(name) for name in {"django": [], "unfold": ["unfold"]}.get(theme, [theme]))
    pages = opened(root)
    assert len(pages) > 40
    closed = ("/add/", "/delete/")
    bare = [url for url, page in pages.items() if MARKS[theme] not in page and not url.endswith(closed)]
    assert bare == [], "pages of this theme"


@pytest.mark.usefixtures("shop")
def test_a_page_says_whose_it_is_and_a_question_what_it_asks(root: Client) -> None:
    letter = DeadLetter.objects.earliest("created_at")
    for name in ("idempotencykey_change", "deadletter_change", "deadletter_discard"):
        shown = root.get(reverse(f"admin:{APP}_{name}", args=[letter.pk]))
        title = conditional_escape(shown.context["title"])
        assert shown.content.decode().count(f"<h1>{title}</h1>") == 1, name


@pytest.mark.usefixtures("shop")
def test_every_page_answers_where_nobody_can_read_what_is_stored(root: Client) -> None:
    spoil()
    assert opened(root)


@pytest.mark.usefixtures("shop")
def test_what_a_person_does_is_done_and_is_in_its_history(root: Client) -> None:
    letter = DeadLetter.objects.earliest("created_at")
    url = reverse(f"admin:{APP}_deadletter_discard", args=[letter.pk])
    form = {"reason": "too late", "seen": seen(root, url)}
    assert root.post(url, form, follow=True).status_code == 200
    history = root.get(reverse(f"admin:{APP}_idempotencykey_history", args=[letter.pk]))
    assert "too late" in history.content.decode()
    waits = DeadLetter.objects.exclude(pk=letter.pk).earliest("created_at")
    for action in ("redrive_picked", "discard_picked"):
        picked = {"action": action, "_selected_action": [str(waits.pk)]}
        asked = root.post(reverse(f"admin:{APP}_deadletter_changelist"), picked, follow=True)
        assert asked.status_code == 200
        assert "reason" in asked.context["form"].fields, "the page that asks for a reason"
    assert (
        root.get(
            reverse(f"admin:{APP}_idempotencykey_changelist"), {"q": "x", "e": "1"}, follow=True
        ).status_code
        == 200
    )
    assert IdempotencyKey.objects.filter(pk=letter.pk, discarded_at__isnull=False).exists()
