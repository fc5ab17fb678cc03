"""The steps of a key on its page."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.admin.conftest import Person, page
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
KEY = "idempotencykey"


def test_the_steps_of_a_key_are_told_with_their_attempt_and_duration(
    root: Client, person: Person, keys: Keys
) -> None:
    claim = keys.claimed()
    assert keys.store().keep_step(claim, "plan", value='{"weeks": 6}', elapsed=2.5)
    assert keys.store().keep_step(claim, "ask", value=None, elapsed=3725.0)
    lines = root.get(page(KEY, "change", claim.digest)).context["steps"]
    assert [(each.name, each.attempt, each.took) for each in lines] == [
        ("plan", 1, "2.5 s"),
        ("ask", 1, "1 h 2 m"),
    ]
    assert ('"weeks": 6' in lines[0].value, lines[1].value) == (True, "null")
    ann = person("view_idempotencykey").get(page(KEY, "change", claim.digest))
    assert [each.value for each in ann.context["steps"]] == ["", ""]
    assert ("2.5 s" in ann.content.decode(), "weeks" in ann.content.decode()) == (True, False)
