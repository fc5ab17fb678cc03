"""People at the admin, and the keys that they look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.support.early import early_in_a_minute
from tests.support.keys import Keys

__all__ = ["early_in_a_minute"]

APP = "django_idempotent_tasks"
#: A script, markup, a path, SQL, an escape that clears a terminal, a change of direction.
HOSTILE = "<script>alert(1)</script>'\"><img src=x>../../etc/passwd'; DROP TABLE x;--\x1b[2J\u202egnp"

Person = Callable[..., Client]


def page(model: str, name: str = "changelist", *args: object) -> str:
    """The address of one of our pages."""
    return reverse(f"admin:{APP}_{model}_{name}", args=args)


def messages_of(response: Any) -> str:
    """What a person was told."""
    return " ".join(str(message) for message in response.context["messages"])


def logged() -> list[str]:
    """What the admin's log says of our rows, the last first."""
    return [entry.change_message for entry in LogEntry.objects.order_by("-pk")]


@contextmanager
def at_most(number: int) -> Iterator[None]:
    """No more statements than that."""
    with CaptureQueriesContext(connection) as captured:
        yield
    said = [query["sql"] for query in captured.captured_queries]
    assert len(said) <= number, "\n".join(said)


def seen(client: Client, url: str) -> str:
    """The mark of the row in a confirmation page's form."""
    return str(client.get(url).context["form"].initial["seen"])


@pytest.fixture
def keys() -> Keys:
    return Keys("default")


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password=None))
    return client


@pytest.fixture
def person() -> Person:
    """Make a member of the staff with these permissions of ours and no others."""

    def make(*codenames: str, name: str = "ann") -> Client:
        user = User.objects.create_user(name, is_staff=True)
        found = Permission.objects.filter(codename__in=codenames, content_type__app_label=APP)
        assert found.count() == len(codenames)
        user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        return client

    return make
