"""The settings dict: unknown names and wrong values are errors that name the remedy."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from django_idempotent_tasks import ConfigurationError
from django_idempotent_tasks.conf import settings as read_settings
from django_idempotent_tasks.conf.project import Settings, hmac_key, parse
from tests.support.ledger.policies import POLICY


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({"LEESE": 5}, "Did you mean 'LEASE'?"),
        ({"lease": 5}, "Did you mean 'LEASE'?"),
        ({"LEASE": 0}, "between 1 s and"),
        ({"RETENTION": "7 days"}, "seconds or a timedelta"),
        ({"DATABASE": "nowhere"}, "an alias in DATABASES"),
        ({"SWEEPER": "on"}, "'thread', 'off'"),
        ({"KEEP_CONNECTIONS": "yes"}, "True or False"),
        ({"CLAIM_DURABILITY": "slow"}, "'durable', 'fast'"),
        ({"MAX_CRASHES": 0}, "at least 1"),
        ({"MAX_PAYLOAD": -1}, "at least 0"),
        ({"HMAC_KEY": "too short"}, "at least 16 characters"),
        (["LEASE"], "must be a dict"),
    ],
    ids=str,
)
def test_a_bad_setting_names_its_remedy(given: Any, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(given)
    assert remedy in str(caught.value)


def test_durations_may_be_timedeltas() -> None:
    assert parse({"RETENTION": timedelta(days=2)}).retention == 2 * 86_400


def test_defaults_are_those_of_the_contract() -> None:
    defaults = Settings()
    assert (defaults.lease, defaults.retention, defaults.max_crashes) == (60, 7 * 86_400, 3)
    assert (defaults.dead_letter_retention, defaults.redelivery_window) == (90 * 86_400, 86_400)
    assert (defaults.republish_after, defaults.max_payload, defaults.sweeper) == (300, 1_048_576, "thread")


def test_overridden_settings_are_read_again(settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"LEASE": 9}
    assert read_settings().lease == 9
    settings.IDEMPOTENT_TASKS = {}
    assert read_settings().lease == 60


@pytest.mark.parametrize(("given", "is_durable"), [({}, True), ({"CLAIM_DURABILITY": "fast"}, False)])
def test_claims_wait_for_the_disk_unless_told_otherwise_and_those_of_follow_ups_always(
    settings: Any, given: dict[str, str], *, is_durable: bool
) -> None:
    settings.IDEMPOTENT_TASKS = given
    assert POLICY.claims_durably is is_durable
    assert replace(POLICY, on_duplicate="follow_up").claims_durably


def test_the_key_of_digests_outlives_a_rotation_of_the_secret_key(settings: Any) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "first", []
    first = hmac_key()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "second", ["first"]
    assert hmac_key() == first
    settings.IDEMPOTENT_TASKS = {"HMAC_KEY": "k" * 16}
    assert hmac_key() == "k" * 16


def test_the_key_of_digests_is_quoted_nowhere() -> None:
    secret = "s3cret" * 4
    assert secret not in repr(parse({"HMAC_KEY": secret}))
    for given in ("s3cret", secret.encode()):
        with pytest.raises(ConfigurationError) as caught:
            parse({"HMAC_KEY": given})
        assert "s3cret" not in str(caught.value)
