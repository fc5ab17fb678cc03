"""What a run does: calls and faults, as a pure function of the seed and the size."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from json import dumps
from typing import TypeVar

Item = TypeVar("Item")


class Kind(StrEnum):
    """How a call is made and run."""

    RETURNED = "leased, completed by return"
    COMPLETED = "leased, completed inside complete()"
    ATOMIC = "atomic"
    RESERVED = "reserved, leased"
    RESERVED_ATOMIC = "reserved, atomic"
    STEPPED = "with steps"
    RETRIED = "retried"
    REFUSED = "fails for good"
    FOLLOWED = "followed up"
    BATCH = "batch with steps"
    HTTP = "over HTTP"


#: Of a hundred calls.
SHARES: Mapping[Kind, int] = {
    Kind.RETURNED: 16,
    Kind.COMPLETED: 18,
    Kind.ATOMIC: 16,
    Kind.RESERVED: 14,
    Kind.RESERVED_ATOMIC: 10,
    Kind.STEPPED: 6,
    Kind.RETRIED: 6,
    Kind.REFUSED: 3,
    Kind.FOLLOWED: 5,
    Kind.BATCH: 1,
    Kind.HTTP: 5,
}
#: Calls without a row before a worker has claimed them: a broker may lose them, and their sender looks.
PLAIN = frozenset({Kind.RETURNED, Kind.COMPLETED, Kind.ATOMIC, Kind.STEPPED, Kind.RETRIED, Kind.REFUSED})
#: Records of a batch, and of each of its chunks.
RECORDS, CHUNK = 12, 4
#: The periodic tasks, and the seconds between two times of each.
PERIODIC = ("ticking", "ticking_atomically")
PERIOD = 2
#: Calls that change one key of the kind that is followed up.
CHANGES = 5


class Strike(StrEnum):
    """What a fault does."""

    CHILD_KILLED = "child killed"
    CHILD_FROZEN = "child frozen"
    WORKER_KILLED = "worker killed"
    WORKER_FROZEN = "worker frozen"
    WORKER_REPLACED = "worker replaced warm"
    WORKER_STOPPED_COLD = "worker stopped cold"
    WORKER_STOPPED_EARLY = "worker stopped as it becomes ready"
    DEPLOYMENT = "rolling deployment"
    BEAT_KILLED = "beat killed"
    BEAT_FROZEN = "beat frozen"
    SWEEPER_KILLED = "sweeper killed"
    SWEEPER_FROZEN = "sweeper frozen"
    SENDER_KILLED = "sender killed"
    SENDER_FROZEN = "sender frozen"
    WEB_KILLED = "web server killed"
    CLOCK_AHEAD = "sweep by a clock that is ahead"
    WORKER_CLOCK = "worker clock set wrong"
    SENDER_CLOCK = "sender clock set wrong"
    BEAT_CLOCK = "beat clock set wrong"
    SWEEPER_CLOCK = "sweeper clock set wrong"
    WEB_CLOCK = "web server clock set wrong"
    HOST_CUT = "host cut off"
    HOST_CUT_FOR_GOOD = "host cut off for good"
    HOST_NARROWED = "host behind a narrow link"
    DATABASE_CUT = "database connections cut"
    DATABASE_KILLED = "database killed"
    DATABASE_FROZEN = "database frozen"
    DATABASE_RESTARTED = "database restarted"
    DATABASE_READ_ONLY = "database read-only"
    DATABASE_DISK_FULL = "database disk full"
    DATABASE_LOG_FULL = "database disk full of its log"
    DATABASE_FAILED_OVER = "database failed over"
    DATABASE_FAILED_OVER_LATE = "database failed over to a standby that was away"
    STANDBY_KILLED = "standby killed"
    POOLER_KILLED = "pooler killed"
    BROKER_CUT = "broker connections cut"
    BROKER_KILLED = "broker killed"
    BROKER_FROZEN = "broker frozen"
    BROKER_RESTARTED = "broker restarted"
    BROKER_FULL = "broker out of memory"
    BROKER_DISK_FULL = "broker disk full"


#: How often each strikes, beside the others; none less than once.
WEIGHTS: Mapping[Strike, int] = {
    **dict.fromkeys(Strike, 2),
    Strike.CHILD_KILLED: 70,
    Strike.CHILD_FROZEN: 22,
    Strike.WORKER_KILLED: 12,
    Strike.WORKER_FROZEN: 6,
    Strike.WORKER_REPLACED: 6,
    Strike.WORKER_STOPPED_COLD: 5,
    Strike.WORKER_STOPPED_EARLY: 4,
    Strike.BEAT_KILLED: 6,
    Strike.BEAT_FROZEN: 4,
    Strike.SWEEPER_KILLED: 6,
    Strike.SWEEPER_FROZEN: 4,
    Strike.SENDER_KILLED: 10,
    Strike.SENDER_FROZEN: 4,
    Strike.WEB_KILLED: 4,
    Strike.CLOCK_AHEAD: 8,
    Strike.WORKER_CLOCK: 8,
    Strike.BEAT_CLOCK: 4,
    Strike.HOST_CUT: 8,
    Strike.HOST_CUT_FOR_GOOD: 5,
    Strike.HOST_NARROWED: 4,
    Strike.DATABASE_CUT: 14,
    Strike.BROKER_CUT: 12,
    Strike.DATABASE_FROZEN: 3,
    Strike.BROKER_FROZEN: 3,
    Strike.DATABASE_FAILED_OVER: 8,
    Strike.DATABASE_FAILED_OVER_LATE: 6,
    Strike.STANDBY_KILLED: 6,
}
#: What needs a server: SQLite is a file.
OF_A_SERVER = frozenset(strike for strike in Strike if strike.name.startswith("DATABASE"))
#: What needs a database, and a broker, whose disk can be filled; what needs clocks that can be set.
OF_A_DISK = frozenset({Strike.DATABASE_DISK_FULL, Strike.DATABASE_LOG_FULL})
OF_A_BROKERS_DISK = frozenset({Strike.BROKER_DISK_FULL})
OF_A_CLOCK = frozenset(strike for strike in Strike if strike.name.endswith("_CLOCK"))
#: What needs hosts whose links can be cut.
OF_A_HOST = frozenset(strike for strike in Strike if strike.name.startswith("HOST"))
#: Databases that have a standby, and what needs one.
PAIRS = frozenset({"standby", "asynchronous-standby"})
OF_A_PAIR = frozenset(strike for strike in Strike if "FAILED_OVER" in strike.name or "STANDBY" in strike.name)
#: In seconds: how long something stands still that has a lease, how long a server is away, and how long a
#: host that comes back: longer than a lease, and often than the bound of an atomic claim.
STILL, AWAY, APART = (4.0, 14.0), (1.0, 4.0), (6.0, 24.0)


@dataclass(frozen=True)
class Call:
    """One call, sent ``repeats`` times more; its body asks for so many ``retries``."""

    number: int
    kind: Kind
    key: str
    seconds: float
    repeats: int
    retries: int

    @property
    def name(self) -> str:
        """What names the call among those of all runs; several may have one key."""
        return f"{self.key.partition('-')[0]}/{self.number}"


@dataclass(frozen=True)
class Fault:
    """One fault: when this part of the calls has ended, at the victim that ``pick`` chooses."""

    number: int
    strike: Strike
    at: float
    pick: float
    seconds: float


@dataclass(frozen=True)
class Setting:
    """What a run is made of."""

    calls: int = 10_000
    faults: int = 220
    database: str = "postgresql"
    broker: str = "redis"
    #: Strikes that are left out, by choice or since this machine does not allow them.
    without: Collection[str] = ()


@dataclass(frozen=True)
class Plan:
    """What is done in one run."""

    seed: int
    setting: Setting
    calls: tuple[Call, ...]
    faults: tuple[Fault, ...]

    @property
    def prefix(self) -> str:
        """How every key of this run begins."""
        return prefix_of(self.seed)

    @property
    def digest(self) -> str:
        """The same for the same plan, whoever makes it."""
        text = dumps([[asdict(each) for each in group] for group in (self.calls, self.faults)])
        return sha256(text.encode()).hexdigest()[:12]


def prefix_of(seed: int) -> str:
    """How every key of the run with this seed begins."""
    return f"s{seed}-"


def make_plan(seed: int, setting: Setting) -> Plan:
    """Make the plan of a seed: the same seed and setting give the same plan."""
    rng = random.Random(f"calls {seed}")
    kinds = shuffled(SHARES, setting.calls, rng)
    calls = tuple(_call(number, kind, seed, kinds, rng) for number, kind in enumerate(kinds))
    return Plan(seed, setting, calls, _faults(seed, setting))


def strikes_of(setting: Setting) -> dict[Strike, int]:
    """The strikes that this database and this broker can be dealt, with their weights."""
    impossible = {strike for strike in Strike if strike.value in setting.without}
    if setting.database == "sqlite":  # its file is on one host
        impossible |= OF_A_SERVER | OF_A_HOST
    if setting.database == "mariadb":  # its log has its place from the start
        impossible |= {Strike.DATABASE_LOG_FULL}
    if setting.database != "pgbouncer":
        impossible |= {Strike.POOLER_KILLED}
    impossible |= OF_A_DISK if setting.database in PAIRS else OF_A_PAIR  # a pair's data lies on no small disk
    return {strike: weight for strike, weight in WEIGHTS.items() if strike not in impossible}


def shuffled(weights: Mapping[Item, int], total: int, rng: random.Random) -> list[Item]:
    """So many items in the proportions of their weights, each once at least where they are enough."""
    items, whole = list(weights), sum(weights.values())
    counts = {item: max(1, total * weight // whole) for item, weight in weights.items()}
    by_weight = sorted(items, key=lambda item: -weights[item])
    chosen = [item for item in by_weight for _ in range(counts[item])][:total]
    chosen += [by_weight[number % len(items)] for number in range(total - len(chosen))]
    rng.shuffle(chosen)
    return chosen


def _call(number: int, kind: Kind, seed: int, kinds: Sequence[Kind], rng: random.Random) -> Call:
    slow, again, retries = rng.random(), rng.random(), rng.randint(1, 2)
    seconds = 0.0 if slow < 0.7 else round(rng.uniform(0.005, 0.05), 3)  # noqa: PLR2004
    if slow > 0.97:  # noqa: PLR2004
        seconds = round(rng.uniform(0.5, 2.0), 3)  # there must be something at work to strike
    name: object = number
    if kind is Kind.FOLLOWED:
        groups = max(1, kinds.count(kind) // CHANGES)
        name = f"changes-{number % groups}"
    repeats = 1 if again < 0.1 and kind is not Kind.FOLLOWED else 0  # noqa: PLR2004
    return Call(
        number, kind, f"{prefix_of(seed)}{name}", seconds, repeats, retries if kind is Kind.RETRIED else 0
    )


def _faults(seed: int, setting: Setting) -> tuple[Fault, ...]:
    rng = random.Random(f"faults {seed}")
    strikes = shuffled(strikes_of(setting), setting.faults, rng)
    return tuple(
        Fault(
            number,
            strike,
            at=round((number + rng.random()) / (len(strikes) + 1), 5),
            pick=rng.random(),
            seconds=round(rng.uniform(*_span_of(strike)), 2),
        )
        for number, strike in enumerate(strikes)
    )


def _span_of(strike: Strike) -> tuple[float, float]:
    """Between how many seconds a fault lasts."""
    if strike is Strike.HOST_CUT:
        return APART
    if strike is Strike.DATABASE_FAILED_OVER_LATE:
        return STILL  # away for longer than a lease: what commits meanwhile must be worth a loss
    return AWAY if strike.name.startswith(("DATABASE", "STANDBY", "BROKER", "POOLER")) else STILL
