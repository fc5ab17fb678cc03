"""The conformance suite of a ledger store, to run against one's own."""

from __future__ import annotations

from .atomic_claims import AtomicFirstClaims, AtomicReservedClaims
from .atomic_ends import AtomicResults, TakenBack, Transactions
from .atomic_finished import AtomicReclaims
from .atomic_open import AtomicTakeovers, CountedStarts
from .atomic_rivals import AtomicRivals
from .batch_chunks import FollowingChunks
from .batch_ends import CancelledBatches, FinishedBatches
from .batch_moves import MovedRecords
from .batch_outcomes import KeptOutcomes
from .batch_prunes import PrunedBatches
from .batches import SubmittedBatches
from .claims import FirstClaims, Takeovers
from .dead_owners import DeadOwners
from .decisions import DecidedOnce, Discarded, Redriven, RedriveOperations, Resolved
from .duties import Duplicates, Leadership
from .failing import FailedAttempts, PlainFailures, UnstorableRecords
from .finished import Reclaims, ReplacedCalls
from .holding import Holding
from .hours import HourlyTotals
from .interventions import CountsOfMessages, Hastening, Releasing, Revoking, UnknownTasks
from .leases import Renewals
from .pausing import Pauses
from .promoting import CancelledFollowUps
from .pruning import PrunedKeys, PrunedRecords
from .reserving import Reservations, ReservedAnew, ReservedClaims, SentOnly
from .reserving_many import ManyAtOnce, ManyReservations
from .rivals import Rivals
from .settling import Cancelling, Settling, UnsentMessages
from .silence import ExternalCalls, SilentOwners
from .steps import ForgottenSteps
from .sweeping import Bites, EarlyMessages, FreedLeases, SentAgain
from .telling import Progress
from .text import Text
from .turns import OfOneTurn
from .workers import LivingWorkers

__all__ = ["StoreContract"]


class StoreContract(
    FirstClaims,
    Takeovers,
    Reclaims,
    ReplacedCalls,
    Reservations,
    ManyReservations,
    ManyAtOnce,
    SentOnly,
    ReservedAnew,
    ReservedClaims,
    Settling,
    Cancelling,
    UnsentMessages,
    DeadOwners,
    FailedAttempts,
    UnstorableRecords,
    SilentOwners,
    ExternalCalls,
    DecidedOnce,
    Redriven,
    Discarded,
    Resolved,
    RedriveOperations,
    EarlyMessages,
    Pauses,
    PlainFailures,
    Renewals,
    Progress,
    ForgottenSteps,
    CancelledFollowUps,
    FreedLeases,
    SentAgain,
    Bites,
    CountsOfMessages,
    Revoking,
    Releasing,
    Hastening,
    UnknownTasks,
    PrunedKeys,
    PrunedRecords,
    Duplicates,
    Leadership,
    HourlyTotals,
    Text,
    OfOneTurn,
    Rivals,
    AtomicFirstClaims,
    AtomicReservedClaims,
    AtomicTakeovers,
    CountedStarts,
    AtomicReclaims,
    AtomicResults,
    TakenBack,
    Transactions,
    Holding,
    AtomicRivals,
    SubmittedBatches,
    FinishedBatches,
    CancelledBatches,
    FollowingChunks,
    KeptOutcomes,
    MovedRecords,
    PrunedBatches,
    LivingWorkers,
):
    """What a ledger store promises: each method named ``test_...`` is one promise.

    Derive a class of pytest tests and say which store::

        @pytest.mark.django_db(transaction=True)
        class TestMyStore(StoreContract):
            def store(self) -> LedgerStore:
                return MyStore(connections["default"])

    ``store()`` must be on ``django.db.connections[alias]`` of the calling thread. The tests commit and
    look at what other connections see, so they need ``transaction=True``, an empty ledger before
    each of them, and a database that is not in memory. ``second_store()`` opens those other
    connections; it is ``side_connection()`` unless overridden. Set ``has_row_locks = False`` for a
    database that locks as a whole: the promises about waiting for a row are then skipped.

    To see the values of a failed assertion, ask pytest to rewrite this package, before importing it:
    ``pytest.register_assert_rewrite("django_idempotent_tasks.testing.contract")`` in ``conftest.py``.
    """
