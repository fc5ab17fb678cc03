"""Names every counter, histogram and gauge with its labels: the same for Prometheus and OpenTelemetry."""

from __future__ import annotations

from dataclasses import dataclass

from ..models import BOUNDS

__all__ = ["BOUNDS", "COUNTERS", "GAUGES", "HISTOGRAMS", "Instrument"]


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric, named without a prefix and a suffix; ``words`` say what is counted or measured."""

    name: str
    words: str
    labels: tuple[str, ...] = ()
    #: Of what is measured: the suffix of Prometheus, and the unit of OpenTelemetry.
    unit: str = ""


CLAIMS = Instrument("claims", "Claims with which a body began", ("task",))
TAKEOVERS = Instrument("takeovers", "Claims of work whose last owner died", ("task",))
COMPLETIONS = Instrument("completions", "Keys that were completed", ("task",))
RETRIES = Instrument("retries", "Attempts that ended and run again later, by category", ("task", "category"))
DEAD = Instrument("dead_lettered", "Keys that became dead letters, by category", ("task", "category"))
DUPLICATES = Instrument("duplicates", "Calls that were refused as duplicates, by reason", ("task", "reason"))
WOULD_REFUSE = Instrument(
    "would_refuse",
    "Calls that the guard would refuse and shadow mode runs, by reason",
    ("task", "reason"),
)
FOLLOW_UPS = Instrument("follow_ups", "Calls that were accepted to run after the present one", ("task",))
LOSSES = Instrument("lease_losses", "Attempts that lost their lease", ("task",))
REDRIVES = Instrument("redrives", "Dead letters that were redriven", ("task",))
LEADS = Instrument("leader_changes", "Times that a process took a duty", ("duty",))

RUNS = Instrument("run", "From the claim of an attempt to its end", ("task",), "seconds")
WAITS = Instrument(
    "queue_wait", "From a call, or its ETA, to its first attempt", ("task", "queue"), "seconds"
)

COUNTERS = (
    CLAIMS,
    TAKEOVERS,
    COMPLETIONS,
    RETRIES,
    DEAD,
    DUPLICATES,
    WOULD_REFUSE,
    FOLLOW_UPS,
    LOSSES,
    REDRIVES,
    LEADS,
)
HISTOGRAMS = (RUNS, WAITS)

UP = Instrument("ledger_up", "1 where the ledger's database answered this scrape")
KEYS = Instrument("keys", "Keys by state; 10000 means so many or more", ("state",))
OVERDUE = Instrument("overdue_keys", "Keys that the sweeper should have moved on a minute ago", ("state",))
PENDING_AGE = Instrument("oldest_pending", "Age of the oldest pending key that was read", (), "seconds")
LAG = Instrument("relay_lag", "For how long the oldest unsent message has been due", (), "seconds")
LETTERS = Instrument("dead_letters", "Dead letters by category; 10000 means so many or more", ("category",))
LETTER_AGE = Instrument("dead_letter_oldest", "Age of the oldest dead letter that was read", (), "seconds")
LEADER = Instrument("leader", "1 where a process leads the duty", ("duty",))
SWEPT_AGE = Instrument("last_sweep", "Since the last sweep that ended without an error", (), "seconds")
PRUNE = Instrument("prune_behind_keys", "Keys that should have been deleted a minute ago")
FINDINGS = Instrument("findings", "What needs a person, as idem status names it", ("name",))
PAUSES = Instrument("pauses", "Pauses in force: they need nobody")
HELD = Instrument("held_calls", "Calls that wait for a pause, or to be sent after one")

GAUGES = (
    UP,
    KEYS,
    OVERDUE,
    PENDING_AGE,
    LAG,
    LETTERS,
    LETTER_AGE,
    LEADER,
    SWEPT_AGE,
    PRUNE,
    FINDINGS,
    PAUSES,
    HELD,
)
