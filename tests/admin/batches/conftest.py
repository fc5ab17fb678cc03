"""Batches whose pages people look at, and what they decide there."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import pytest
from django.test import Client

from django_idempotent_tasks.models import Batch
from tests.admin.conftest import page, seen
from tests.support.post import post
from tests.support.uploads import Batches, register

__all__ = ["post", "register"]
WHY = "the price list was wrong"


@pytest.fixture
def uploads() -> Batches:
    return Batches()


def url(batch: Batch, name: str = "change") -> str:
    """The address of a page of a batch."""
    return page("batch", name, batch.pk)


def decide(client: Client, batch: Batch, name: str, **form: str) -> Any:
    """The answer to a decision about a batch as it is now."""
    target = url(batch, name)
    return client.post(target, {"reason": WHY, "seen": seen(client, target), **form}, follow=True)


def lines_of(response: Any) -> list[dict[str, str]]:
    """The lines of a CSV file that is sent piece by piece."""
    text = b"".join(response.streaming_content).decode()
    return list(csv.DictReader(StringIO(text, newline="")))
