"""What is measured: which task in which worker, how it must end, what it is compared with, and the goal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from benchmarks.worker import GUARDED_KEPT, GUARDED_STOCK, PLAIN_KEPT, PLAIN_STOCK, Role


class Kind(Enum):
    """What a call is to the ledger."""

    PLAIN = "not guarded"
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
    goal: float | None


@dataclass(frozen=True)
class Variant:
    """One way to have a queue of tasks done."""

    label: str
    title: str
    kind: Kind
    role: Role
    task: str
    against: tuple[Against, ...] = ()


SEED_TASK = "benchmarks.guarded.completes"
_LEASED = (Against("plain", 0.85),)

VARIANTS = (
    Variant("plain", "plain", Kind.PLAIN, PLAIN_KEPT, "benchmarks.plain.write"),
    Variant(
        "complete",
        "leased, .complete()",
        Kind.FRESH,
        GUARDED_KEPT,
        SEED_TASK,
        (*_LEASED, Against("stock", 2.0)),
    ),
    Variant(
        "complete-bare",
        "leased, .complete(), message not stored",
        Kind.FRESH,
        GUARDED_KEPT,
        "benchmarks.guarded.completes_unstored",
        _LEASED,
    ),
    Variant("return", "leased, returns", Kind.FRESH, GUARDED_KEPT, "benchmarks.guarded.returns", _LEASED),
    Variant(
        "return-bare",
        "leased, returns, message not stored",
        Kind.FRESH,
        GUARDED_KEPT,
        "benchmarks.guarded.returns_unstored",
        _LEASED,
    ),
    Variant(
        "result",
        "leased, returns a small result",
        Kind.FRESH,
        GUARDED_KEPT,
        "benchmarks.guarded.returns_result",
        _LEASED,
    ),
    Variant(
        "duplicate",
        "duplicate, another task id",
        Kind.DUPLICATE,
        GUARDED_KEPT,
        SEED_TASK,
        (Against("plain", 1.05), Against("complete", None)),
    ),
    Variant(
        "redelivered",
        "duplicate, redelivered",
        Kind.REDELIVERED,
        GUARDED_KEPT,
        SEED_TASK,
        (Against("plain", 1.05),),
    ),
    Variant("stock", "plain, stock", Kind.PLAIN, PLAIN_STOCK, "benchmarks.plain.write"),
    Variant(
        "complete-stock",
        "leased, .complete(), stock",
        Kind.FRESH,
        GUARDED_STOCK,
        SEED_TASK,
        (Against("stock", None),),
    ),
)
BY_LABEL = {variant.label: variant for variant in VARIANTS}
