"""Who stops a worker waits for longer than the worker does, and signals it alone."""

from __future__ import annotations

import re

import pytest

from tests.project.deploy.files import DEPLOY, containers, pods, pooler, services, settings_of
from tests.project.deploy.test_commands import PAGE

WORKER = dict(settings_of(DEPLOY / "systemd" / "shop-worker@.service"))
GRACES = {
    "systemd": WORKER["TimeoutStopSec"],
    "Kubernetes": str(dict(pods())["shop-worker"]["terminationGracePeriodSeconds"]),
    "Compose": services()["worker"]["stop_grace_period"],
}


def _seconds(text: str) -> int:
    return int(text.removesuffix("s"))


@pytest.mark.parametrize("by", GRACES)
def test_a_worker_is_killed_only_after_its_soft_shutdown(by: str) -> None:
    softly = re.search(r"^CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = (\d+)$", PAGE.read_text(), re.MULTILINE)
    assert softly
    assert _seconds(GRACES[by]) >= int(softly[1]) + 20


def test_sigterm_begins_a_soft_shutdown_whoever_sends_it() -> None:
    assert ("Environment", "REMAP_SIGTERM=SIGQUIT") in settings_of(DEPLOY / "systemd/shop-worker@.service")
    (worker,) = (each for each in containers() if each["name"] == "worker")
    assert {"name": "REMAP_SIGTERM", "value": "SIGQUIT"} in worker["env"]
    assert services()["worker"]["environment"]["REMAP_SIGTERM"] == "SIGQUIT"


def test_systemd_signals_the_worker_alone_and_lets_it_outlive_a_child() -> None:
    assert (WORKER["KillMode"], WORKER["OOMPolicy"]) == ("mixed", "continue")


def test_a_probe_has_the_time_that_it_takes() -> None:
    for container in containers():
        for kind in {"startupProbe", "livenessProbe"} & container.keys():
            assert container[kind]["timeoutSeconds"] >= 20


def test_the_pooler_is_in_transaction_mode_and_notices_a_host_that_vanishes() -> None:
    told = pooler()
    assert told["pool_mode"] == "transaction"
    idle, wait, times = (int(told[f"tcp_keep{name}"]) for name in ("idle", "intvl", "cnt"))
    assert idle + wait * times <= 20
    assert 0 < int(told["tcp_user_timeout"]) <= 20_000  # no keepalive is sent while an answer is under way


def test_the_broker_keeps_its_messages_and_evicts_none() -> None:
    said = services()["valkey"]["command"]
    assert "--appendonly yes" in said
    assert "--maxmemory-policy noeviction" in said
