"""The contract on MariaDB or MySQL, where MYSQL_URL names one."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import connections

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.constraints import missing
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract import StoreContract

#: MariaDB's type ``uuid`` refuses it.
NO_UUID = UUID("f8d0d47f-c681-aac1-381e-ad1795e9612d")

if "mysql" not in settings.DATABASES:
    pytest.skip("MYSQL_URL names no MariaDB or MySQL", allow_module_level=True)

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "mysql"], available_apps=["django_idempotent_tasks"]
)


class TestMysql(StoreContract):
    #: No lock of theirs ends with the transaction and needs no row. How long they wait: tests/concurrency.
    locks_missing_rows = False

    def store(self) -> LedgerStore:
        return get_store("mysql")

    def test_a_digest_may_be_what_is_no_uuid(self) -> None:
        call = Call(Identity(NO_UUID, None, "7", NO_UUID), task="shop.charge", task_id="A", message=None)
        claim = self.completed(self.claimed(call), retention=0)
        assert (self.row(claim).digest, self.seen(call).fingerprint) == (NO_UUID, NO_UUID)
        anew = self.call("B", of=call, fingerprint=NO_UUID)
        self.claimed_anew(anew)
        assert self.seen(call).was_answered is True
        self.store().record_duplicate(call, place="worker", reason="in_progress")
        assert self.store().sum_duplicates(bite=9) == 1
        assert IdempotencyKey.objects.using(self.alias).filter(fingerprint=NO_UUID).count() == 1

    @pytest.mark.parametrize("other", ["a", "A ", " A", "A\t", "\u00c4", "a\u0308"])
    def test_a_task_id_is_another_one_by_case_and_spaces(self, other: str) -> None:
        store, call = self.store(), self.reserved(self.call("A"))
        stranger = self.call(other, of=call)
        assert store.claim_reserved(stranger, owner="w:1:x", lease=9) is None
        assert store.cancel_waiting([other], window=9) == 0
        assert store.expire(call.identity.digest, task_id=other, window=9) is False
        anew = self.call(other, of=self.completed(self.started(call), retention=0).call)
        assert self.seen(anew).was_answered is False
        claim = self.claimed_anew(anew)
        assert (self.seen(anew).was_answered, self.seen(call).was_answered) == (False, True)
        self.completed(claim, retention=0)
        self.claimed_anew(self.call("C", of=call))
        assert (self.seen(anew).was_answered, self.seen(call).was_answered) == (True, True)

    def test_an_owner_is_another_one_by_case(self) -> None:
        claim = self.claimed()
        assert self.store().free_dead(claim.digest, owner_prefix="W:1:", republish=9) is False
        assert self.store().free_dead(claim.digest, owner_prefix="w:1:", republish=9) is True
        assert self.seen(claim.call).state is State.RETRY

    def test_a_duty_is_another_one_by_case_and_spaces(self) -> None:
        names = [f"{name}{uuid4().hex[:8]}" for name in ("s", "S")]
        for name in (*names, f"{names[0]} "):
            assert self.store().lead(name, holder=name, lease=60) is True
            assert self.store().lead(name, holder=f"{name} ", lease=60) is False


def test_a_primary_key_that_is_gone_is_named_also_where_a_unique_index_has_taken_its_place() -> None:
    table = IdempotencyKey._meta.db_table
    store = get_store("mysql")
    assert missing(store) == []
    with connections["mysql"].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} DROP PRIMARY KEY, ADD UNIQUE INDEX other (digest)")
        try:
            (lacking,) = missing(store)
        finally:
            cursor.execute(lacking.remedy.partition(", then ")[2])
            cursor.execute(f"DROP INDEX other ON {table}")
    assert lacking.text.startswith(f"The primary key (digest) of the table {table} is missing")
    assert missing(store) == []
