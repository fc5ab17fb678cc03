"""OpenTelemetry and Sentry are told the same: instruments, and which attempt a span or an error is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks.metrics import attributes
from django_idempotent_tasks.metrics.attributes import Described, describe
from tests.metrics.heard import UID, disconnect
from tests.support.deliveries import ALIASES, APPS
from tests.support.keys import Keys
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


@pytest.fixture
def described() -> Iterator[list[Described]]:
    """What a trace is told."""
    found: list[Described] = []
    describe(found.append, uid=UID)
    yield found
    disconnect(UID)


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_an_attempt_is_described_before_its_body_by_the_digest_of_its_key(
    till: Till, shop: Counter, described: list[Described], mode: str
) -> None:
    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        assert len(described) == 1
        shop.sell(self)

    till.deliver(sell, 7)
    assert shop.runs == 1
    assert described == [
        {
            "idempotent_tasks.key": shop.row.digest.hex,
            "idempotent_tasks.attempt": 1,
            "idempotent_tasks.token": 1,
            "idempotent_tasks.decision": attributes.RUN,
        }
    ]
    till.deliver(sell, 7, id="B")
    assert described[-1] == {
        "idempotent_tasks.key": shop.row.digest.hex,
        "idempotent_tasks.decision": attributes.DUPLICATE,
        "idempotent_tasks.reason": "already_completed",
    }


def test_opentelemetry_has_the_counts_the_times_and_the_attributes_of_the_span(
    till: Till, shop: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import metrics, trace  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    from django_idempotent_tasks.metrics import opentelemetry as ours  # noqa: PLC0415
    from django_idempotent_tasks.metrics.listener import Listener  # noqa: PLC0415

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    ours.observe_ledger.cache_clear()
    ours.observe_ledger()
    ours.observe_ledger.cache_clear()
    Listener(ours.OpenTelemetrySink()).connect(UID)
    describe(ours.describe_span, uid=f"{UID}.spans")
    Keys(shop.alias).store().lead("sweeper", holder="host:1:abc", lease=60)
    try:
        with TracerProvider().get_tracer("tests").start_as_current_span("run") as span:
            till.deliver(till.seller(shop), 7)
    finally:
        disconnect(UID)
        disconnect(f"{UID}.spans")
    seen = points(reader)
    assert seen["idempotent_tasks.claims"].value == 1
    assert seen["idempotent_tasks.run"].count == 1
    assert len(seen["idempotent_tasks.run"].explicit_bounds) == 12
    assert seen["idempotent_tasks.ledger_up"].value == 1
    assert seen["idempotent_tasks.leader"].value == 1
    assert span.attributes["idempotent_tasks.decision"] == "run"
    assert trace.get_current_span() is not span
    provider.shutdown()


def points(reader: Any) -> dict[str, Any]:
    """The first point of each metric."""
    data = reader.get_metrics_data()
    scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    return {each.name: next(iter(each.data.data_points)) for scope in scopes for each in scope.metrics}


def test_sentry_has_the_same_as_tags_and_nothing_before_it_is_initialised(
    till: Till, shop: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = pytest.importorskip("sentry_sdk")
    from django_idempotent_tasks.metrics import sentry  # noqa: PLC0415

    with sdk.isolation_scope() as scope:
        describe(sentry.tag_scope, uid=UID)
        try:
            till.deliver(till.seller(shop), 7)
            assert "idempotent_tasks.key" not in scope._tags
            monkeypatch.setattr(sdk, "is_initialized", lambda: True)
            till.deliver(till.seller(shop), 8, id="B")
        finally:
            disconnect(UID)
        assert scope._tags["idempotent_tasks.decision"] == "run"
