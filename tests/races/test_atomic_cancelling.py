"""Somebody cancels a key that an open transaction of an atomic run has, whose row nobody can see."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.identity.key import Identity, stated_digest
from django_idempotent_tasks.identity.rules import UNSET
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.operations.cancel import FINISHED, FINISHING, NOT_FOUND
from tests.races.test_atomic_runs import Meeting
from tests.races.watch import watch
from tests.support.ledger.policies import Charge
from tests.support.ledger.session import Session

__all__ = ["watch"]

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


class TestAKeyWithoutARow(Meeting):
    def test_is_finishing_while_the_run_lasts_and_then_as_it_ended(self, one: Session) -> None:
        self.begin_run(one, self._call())
        assert self._cancelled() == FINISHING
        one.commit()
        assert self._cancelled() == FINISHED

    def test_is_not_found_once_the_run_was_rolled_back(self, one: Session) -> None:
        self.begin_run(one, self._call())
        one.rollback()
        assert self._cancelled() == NOT_FOUND

    def _call(self) -> Call:
        digest = stated_digest(Charge.name, idempotency_key="evt_1")
        return Call(Identity(digest, None, "evt_1", None), Charge.name, "A", None)

    def _cancelled(self) -> str:
        return Charge().cancel(idempotency_key="evt_1", scope=None, task_id=None)


def test_without_a_key_or_an_id_it_says_what_to_give() -> None:
    with pytest.raises(TypeError, match="idempotency_key"):
        Charge().cancel(idempotency_key=UNSET)
