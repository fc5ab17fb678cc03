"""A key's page says that a later call waits."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.admin.conftest import page
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
KEY = "idempotencykey"


def test_a_keys_page_says_which_call_follows_and_since_when(root: Client, keys: Keys) -> None:
    claim = keys.claimed()
    assert "follow-up" not in dict(root.get(page(KEY, "change", claim.digest)).context["facts"])
    hostile = "<b>B</b>\u202e"
    assert keys.store().follow(keys.call(hostile, of=claim.call), wait=0)
    answer = root.get(page(KEY, "change", claim.digest))
    words = dict(answer.context["facts"])["follow-up"]
    assert words.startswith("a follow-up has waited since 20")
    assert words.endswith("call <b>B</b>\\u202e")
    assert hostile not in answer.content.decode()
