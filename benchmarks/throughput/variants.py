"""What is measured: which task in which worker, how it must end, what it is compared with, and the goal."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from importlib.util import find_spec

from benchmarks.throughput.worker import (
    BEFORE_KEPT,
    GUARDED_FAST,
    GUARDED_KEPT,
    GUARDED_STOCK,
    PEERS_KEPT,
    PLAIN_KEPT,
    PLAIN_STOCK,
    Role,
)


class Kind(Enum):
    """What a call is to the ledger."""

    PLAIN = "not guarded by it"
    FRESH = "a new key"
    DUPLICATE = "a completed key, another task id"
    REDELIVERED = "a completed key, the same task id"

    @property
    def seeded(self) -> bool:
        """Whether the keys were completed before."""
        return self in {Kind.DUPLICATE, Kind.REDELIVERED}


@dataclass(frozen=True)
class Against:
    """Another variant, by label, and the ratio to it that is aimed at (None: only reported)."""

    base: str
    goal: float | None = None


@dataclass(frozen=True)
class Variant:
    """One way to have a queue of tasks done; ``package`` is what has to be installed for it."""

    label: str
    title: str
    kind: Kind
    role: Role
    task: str
    against: tuple[Against, ...] = ()
    package: str = ""

    @property
    def installed(self) -> bool:
        """Whether it can be run here."""
        return not self.package or find_spec(self.package.replace("-", "_")) is not None

    @property
    def seed(self) -> str:
        """The batch whose keys a duplicate of this task meets."""
        return f"seed/{self.task.rpartition('.')[2]}"


def _plain(label: str, title: str, role: Role, task: str, *against: Against, package: str = "") -> Variant:
    return Variant(label, title, Kind.PLAIN, role, task, against, package)


def _guarded(
    label: str, title: str, task: str, *against: Against, kind: Kind = Kind.FRESH, role: Role = GUARDED_KEPT
) -> Variant:
    return Variant(label, title, kind, role, f"benchmarks.throughput.guarded.{task}", against)


_WRITE = "benchmarks.throughput.plain.write"
_LEASED, _RETURNS = Against("plain", 0.88), Against("plain", 0.80)
_TWICE_STOCK = Against("stock", 2.0)
_DUPLICATE = Against("plain", 1.05)
_DUPLICATE_KIND, _REDELIVERED_KIND = Kind.DUPLICATE, Kind.REDELIVERED

ALL = (
    _plain("plain", "plain", PLAIN_KEPT, _WRITE),
    _guarded("atomic", "atomic", "atomic", Against("plain", 0.95), _TWICE_STOCK),
    _guarded("atomic-result", "atomic, a small result", "atomic_result", Against("plain", 0.88)),
    _guarded("complete", "leased, .complete()", "completes", _LEASED, Against("stock")),
    _guarded("complete-bare", "leased, .complete(), message not stored", "completes_unstored", _LEASED),
    _guarded("return", "leased, returns", "returns", _RETURNS),
    _guarded(
        "complete-fast",
        "leased, .complete(), fast claim",
        "completes",
        _LEASED,
        Against("complete"),
        role=GUARDED_FAST,
    ),
    _guarded(
        "return-fast",
        "leased, returns, fast claim",
        "returns",
        _RETURNS,
        Against("return"),
        role=GUARDED_FAST,
    ),
    _guarded("result", "leased, returns a small result", "returns_result", _RETURNS),
    _guarded(
        "dup-atomic",
        "atomic, duplicate",
        "atomic",
        _DUPLICATE,
        Against("atomic"),
        kind=_DUPLICATE_KIND,
    ),
    _guarded("again-atomic", "atomic, redelivered duplicate", "atomic", _DUPLICATE, kind=_REDELIVERED_KIND),
    _guarded(
        "dup-leased",
        "leased, duplicate",
        "completes",
        _DUPLICATE,
        Against("complete"),
        kind=_DUPLICATE_KIND,
    ),
    _guarded(
        "again-leased", "leased, redelivered duplicate", "completes", _DUPLICATE, kind=_REDELIVERED_KIND
    ),
    _plain(
        "set-nx", "SET NX around the body", PEERS_KEPT, "benchmarks.throughput.peers.set_nx", Against("plain")
    ),
    _plain(
        "once",
        "celery-once",
        PEERS_KEPT,
        "benchmarks.throughput.peers.celery_once",
        Against("plain"),
        package="celery-once",
    ),
    _plain(
        "singleton",
        "celery-singleton",
        PEERS_KEPT,
        "benchmarks.throughput.peers.celery_singleton",
        Against("plain"),
        package="celery-singleton",
    ),
    _plain("stock", "plain, stock", PLAIN_STOCK, _WRITE, Against("plain")),
    _guarded("atomic-stock", "atomic, stock", "atomic", Against("stock"), role=GUARDED_STOCK),
    _guarded(
        "complete-stock", "leased, .complete(), stock", "completes", Against("stock"), role=GUARDED_STOCK
    ),
)


def _before(variant: Variant) -> Variant:
    """The same with the package of another checkout."""
    against = (*variant.against, Against(variant.label))
    label, title = f"{variant.label}-before", f"{variant.title}, before"
    return replace(variant, label=label, title=title, role=BEFORE_KEPT, against=against)


_INSTALLED = tuple(variant for variant in ALL if variant.installed)


def _beside_before(variant: Variant) -> tuple[Variant, ...]:
    """The variant, and next to it, so that the same disturbances hit both, the same before."""
    is_compared = bool(os.environ.get("BENCH_BEFORE")) and variant.role is GUARDED_KEPT
    return (variant, _before(variant)) if is_compared else (variant,)


VARIANTS = tuple(each for variant in _INSTALLED for each in _beside_before(variant))
BY_LABEL = {variant.label: variant for variant in VARIANTS}
#: What is left out here, by the packages' names.
ABSENT = tuple(variant.package for variant in ALL if not variant.installed)
#: The variants whose first round completes the keys that the duplicates are of.
SEEDS = ("complete", "atomic")


def chosen(names: Collection[str]) -> list[str]:
    """The labels to measure: all, or the named ones, what they are compared with, and theirs of before.

    Raises ValueError for a name that is none.
    """
    if not names:
        return list(BY_LABEL)
    unknown = set(names) - set(BY_LABEL)
    if unknown:
        raise ValueError(f"no variant: {', '.join(sorted(unknown))}; there are {', '.join(BY_LABEL)}")
    wanted = {"plain", *names, *(f"{name}-before" for name in names)}
    return [label for label in BY_LABEL if label in wanted]
