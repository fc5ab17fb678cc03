"""How long PostgreSQL keeps the transaction of an atomic claim whose host is gone: never longer than 20 s."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Grant
from django_idempotent_tasks.testing.contract.atomic_bench import AtomicBench

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

IDLE, INTERVAL, COUNT = "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"
USER, CHECK = "tcp_user_timeout", "client_connection_check_interval"

#: A limit of the session, and what it is inside the transaction of a claim.
LIMITS = [
    *[
        (IDLE, said, meant)
        for said, meant in {"1": "1", "7": "7", "8": "8", "9": "8", "17": "8", "70": "8"}.items()
    ],
    *[(INTERVAL, said, meant) for said, meant in {"1": "1", "2": "2", "3": "3", "4": "3", "12": "3"}.items()],
    *[(COUNT, said, meant) for said, meant in {"1": "1", "2": "2", "3": "3", "9": "3", "21": "3"}.items()],
    *[(USER, few, few) for few in ("1", "90", "999", "9999", "10000", "16999", "17000")],
    *[(USER, many, "17000") for many in ("0", "17001", "20000", "169990", "100000")],
    *[(CHECK, said, meant) for said, meant in {"0": "2s", "1": "1ms", "5min": "5min"}.items()],
]


class Runs(AtomicBench):
    def store(self) -> LedgerStore:
        return get_store("default")

    def try_one(self, way: str) -> Grant | None:
        """Claim a key atomically that was there in this ``way``."""
        match way:
            case "new":
                return self.try_atomic(self.call())
            case "reserved":
                return self.try_atomic_reserved(self.reserved())
            case "retried":
                return self.try_atomic_open(self.retried().call)
            case _:
                return self.try_atomic_anew(self.call("B", of=self.run(retention=0).call))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    connection.close()


def shown(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        value: str = cursor.fetchone()[0]
    return value


@pytest.mark.parametrize(("name", "said", "meant"), LIMITS)
def test_a_claim_lowers_a_limit_until_its_transaction_ends_and_keeps_a_smaller_one(
    name: str, said: str, meant: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config(%s, %s, false)", [name, said])
    before, runs = shown(name), Runs()
    with runs.atomically():
        assert runs.try_atomic(runs.call())
        assert shown(name) == meant
    assert shown(name) == before


@pytest.mark.parametrize("way", ["new", "reserved", "retried", "finished"])
def test_every_kind_of_atomic_claim_lowers_all_limits(way: str) -> None:
    runs = Runs()
    with runs.atomically():
        assert runs.try_one(way)
        limits = {name: shown(name) for name in (IDLE, INTERVAL, COUNT, USER, CHECK)}
    assert limits == {IDLE: "8", INTERVAL: "3", COUNT: "3", USER: "17000", CHECK: "2s"}
