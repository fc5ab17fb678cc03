"""The example project under the tests' settings, with a gateway of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from celery import current_app

from example_project.gateway.server import Behaviour, GatewayServer
from example_project.payments.models import Tenant

if TYPE_CHECKING:
    from pytest_django import Settings


@pytest.fixture(autouse=True)
def example_settings(settings: Settings) -> Settings:
    settings.WEBHOOK_MAX_BYTES = 4096
    settings.GATEWAY_TIMEOUT = 5.0
    return settings


@pytest.fixture(autouse=True)
def _not_eager() -> None:
    """Nothing runs where it is called unless a test asks for it, whatever ran in this process before."""
    current_app.conf.task_always_eager = False


@pytest.fixture
def eager(_not_eager: None) -> Iterator[None]:
    """Tasks run where they are called."""
    current_app.conf.task_always_eager = True
    yield
    current_app.conf.task_always_eager = False


@pytest.fixture
def tenant(db: None) -> Tenant:  # noqa: ARG001  (it opens the database)
    return Tenant.objects.create(slug="acme", name="Acme Tools")


@pytest.fixture
def gateway(tmp_path: Path, example_settings: Settings) -> Iterator[GatewayServer]:
    behaviour = Behaviour(latency=(0, 0))
    with GatewayServer(("127.0.0.1", 0), tmp_path / "gateway.sqlite3", behaviour) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        example_settings.GATEWAY_URL = f"http://127.0.0.1:{server.server_port}"
        yield server
        server.shutdown()
        thread.join()
