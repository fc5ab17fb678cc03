"""What ran in shadow mode and would be refused is shown by task, by day and by call, and is no finding."""

from __future__ import annotations

import pytest
from django.test import Client

from django_idempotent_tasks.ledger.rules import SHADOW
from django_idempotent_tasks.ledger.stores.clock import shifted
from tests.admin.conftest import page
from tests.support.fleet import led
from tests.support.keys import Keys, both, facts, idem

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])


def noted(keys: Keys) -> None:
    """A completed key: one call was refused, and two ran in shadow mode."""
    claim = keys.claimed()
    assert keys.complete(claim)
    for place in ("worker", SHADOW, SHADOW):
        keys.store().record_duplicate(claim.call, place=place, reason="already_completed")
    keys.store().sum_duplicates(bite=9)


@both
def test_the_command_shows_it_beside_what_was_refused(keys: Keys) -> None:
    led(keys)
    noted(keys)
    assert "2 calls ran in the last day that the guard would refuse" in idem("status", database=keys.alias)[1]
    code, said = facts(keys, "status")
    assert (code, said["would_refuse"]["count"], said["findings"]) == (0, 2, [])
    (line,) = facts(keys, "tasks")[1]["tasks"]
    assert (line["duplicates"]["count"], line["would_refuse"]["count"]) == (1, 2)
    with shifted(25 * 60 * 60):
        assert facts(keys, "status")[1]["would_refuse"]["count"] == 0


def test_the_admin_says_which_calls_ran(admin_client: Client) -> None:
    noted(Keys("default"))
    assert admin_client.get(page("duplicateattempt")).content.decode().count("shadow mode: it ran") == 2
    assert "1 refused, 2 ran in shadow mode" in admin_client.get(page("dashboard")).content.decode()
