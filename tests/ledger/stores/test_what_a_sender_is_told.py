"""What a sender is told by the ledger, on either store."""

from __future__ import annotations

from uuid import uuid4

import pytest

from django_idempotent_tasks.exceptions import KeyReused
from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Abandoned, Call, Refused, Reserved
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import LEASE, REPUBLISH, Bench
from tests.support.ledger.policies import POLICY

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)


@pytest.fixture(params=["default", "sqlite"])
def sender(request: pytest.FixtureRequest) -> Sender:
    return Sender(request.param)


class Sender(Bench):
    def __init__(self, alias: str) -> None:
        self._alias = alias

    def store(self) -> LedgerStore:
        return get_store(self._alias)

    def sends(self, call: Call) -> Reserved | Refused | Abandoned:
        return Ledger(self.store(), POLICY).reserve(call, wait=REPUBLISH, sends=0)

    def is_refused(self, call: Call) -> tuple[str, str, State]:
        """Why, who has the key, and how that stands."""
        outcome = self.sends(call)
        assert isinstance(outcome, Refused)
        return outcome.reason, outcome.holder, outcome.answer.state


def test_a_new_key_and_a_finished_one_are_reserved(sender: Sender) -> None:
    assert sender.sends(sender.call()) == Reserved(0)
    finished = sender.completed(retention=0).call
    assert sender.sends(sender.call("B", of=finished)) == Reserved(2)


def test_a_live_key_is_its_holders(sender: Sender) -> None:
    for state in (State.PENDING, State.RUNNING, State.RETRY):
        other = sender.call("B", of=sender.in_state(state).call)
        assert sender.is_refused(other) == ("in_progress", "A", state)
        with shifted(LEASE + 1):
            assert sender.is_refused(other) == ("in_progress", "A", state)


def test_a_key_whose_owner_has_gone_and_left_no_message_is_abandoned(sender: Sender) -> None:
    claim = sender.claimed(sender.call(message=None))
    other = sender.call("B", of=claim.call)
    assert sender.is_refused(other) == ("in_progress", "A", State.RUNNING)
    with shifted(LEASE + 1), sender.untouched(claim):
        assert sender.sends(other) == Abandoned()


def test_a_call_that_was_accepted_before_is_not_accepted_again(sender: Sender) -> None:
    call = sender.reserved()
    assert sender.is_refused(call) == ("in_progress", "A", State.PENDING)
    sender.completed(sender.started(call), retention=0)
    assert sender.is_refused(call) == ("already_completed", "A", State.SUCCEEDED)


def test_a_call_that_was_replaced_hears_how_it_ended_itself(sender: Sender) -> None:
    call = sender.failed(sender.claimed()).call
    sender.claimed_anew(sender.call("B", of=call))
    assert sender.is_refused(call) == ("already_completed", "A", State.FAILED)


def test_another_payload_under_the_key_is_an_error_and_changes_nothing(sender: Sender) -> None:
    call = sender.reserved(sender.call(fingerprint=uuid4()))
    with sender.untouched(call), pytest.raises(KeyReused):
        sender.sends(sender.call("B", of=call, fingerprint=uuid4()))
