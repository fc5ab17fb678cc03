"""Makes up the file of a run: sound rows, and some of each kind that must not become a registration."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass, field

from example_project.gateway.store import OUTAGE_AMOUNT
from example_project.registrations.table import COLUMNS

#: Code, price, places, and whether it is paid by debit. The bank of patrons is down at first.
STANDARD, TEAM, VIP, PATRON = "standard", "team", "vip", "patron"
PLACES_OF_VIPS = 5
TICKETS = (
    (STANDARD, "49.00", 20_000, False),
    (TEAM, "39.00", 20_000, True),
    (VIP, "199.00", PLACES_OF_VIPS, False),
    (PATRON, OUTAGE_AMOUNT, 1000, False),
)

#: What is wrong with a row in itself.
WRONG = (
    {"email": "no address"},
    {"email": ""},
    {"ticket": "gold"},
    {"quantity": "0"},
    {"quantity": "11"},
    {"quantity": "many"},
    {"name": "  "},
    {"name": "=1+1\u202e"},
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """The file, and what must come of its lines.

    Of each pair one line must be registered, and of ``vips`` as many as there are places; which ones is
    decided by who comes first.
    """

    body: bytes
    good: frozenset[int]
    fatal: frozenset[int]
    pairs: tuple[frozenset[int], ...]
    vips: frozenset[int]
    patrons: frozenset[int]

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.body.count(b"\n") - 1


@dataclass
class _Lines:
    """The lines of the file by what they are to become."""

    rng: random.Random
    rows: list[dict[str, str]] = field(default_factory=list)
    kinds: dict[str, list[int]] = field(default_factory=dict)

    def add(self, kind: str, **changed: str) -> None:
        line = len(self.rows) + 2
        ticket = TEAM if self.rng.random() < 1 / 10 else STANDARD
        row = {"email": f"a{line}@example.org", "name": f"Attendee {line}", "ticket": ticket, "quantity": "1"}
        self.rows.append({**row, **changed})
        self.kinds.setdefault(kind, []).append(line)

    def of(self, kind: str) -> frozenset[int]:
        return frozenset(self.kinds.get(kind, ()))


def make_sheet(count: int, rng: random.Random) -> Sheet:
    """Make ``count`` rows. 5 of each hundred are bad.

    Two are wrong in themselves, one repeats an attendee, one finds no place, one waits for its bank. A tenth
    of the good ones is paid by debit.
    """
    lines = _Lines(rng)
    some = count // 100
    bad = ["fatal"] * 2 * some + ["twice"] * some + [VIP] * (some + PLACES_OF_VIPS)
    kinds = bad + ["good"] * (count - len(bad) - some)
    rng.shuffle(kinds)
    # Together, so that one chunk waits for the bank, and not every one.
    kinds = [PATRON] * some + kinds
    pairs: list[frozenset[int]] = []
    for kind in kinds:
        if kind == "fatal":
            lines.add(kind, **rng.choice(WRONG))
        elif kind == "twice" and lines.of("good"):
            first = rng.choice(sorted(lines.of("good") - frozenset().union(*pairs)))
            pairs.append(frozenset({first, len(lines.rows) + 2}))
            lines.add(kind, email=f"A{first}@Example.ORG")
        elif kind in {VIP, PATRON}:
            lines.add(kind, ticket=kind)
        else:
            lines.add("good")
    return Sheet(
        body=_written(lines.rows),
        good=lines.of("good") - frozenset().union(*pairs),
        fatal=lines.of("fatal"),
        pairs=tuple(pairs),
        vips=lines.of(VIP),
        patrons=lines.of(PATRON),
    )


def _written(rows: list[dict[str, str]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()
