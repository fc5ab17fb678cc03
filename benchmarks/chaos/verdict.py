"""Judges a run: compares what was planned with what was found. Pure, so that tests show that it can fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks.chaos.checker import Found
from benchmarks.chaos.plan import CHUNK, PERIOD, PERIODIC, PLAIN, RECORDS, Call, Kind, Plan
from example_project.demo.judging.timetable import Job, deviations, grid

DONE, LOST, DOUBLED, ODD = "done once", "LOST", "DOUBLED", "ODD"
#: Kinds whose body asks a provider.
CHARGED = frozenset({Kind.RETURNED, Kind.STEPPED})
#: How texts end that tell of a time at which a periodic task did not run.
_MISSED = ("did not run", "never ran")


@dataclass(frozen=True)
class Fate:
    """What became of one call."""

    call: Call
    verdict: str
    words: str


@dataclass(frozen=True)
class Verdict:
    """What became of all; each text begins with an id."""

    fates: tuple[Fate, ...]
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    odd: tuple[str, ...]
    #: Plain calls that were sent more often than planned, since the ledger did not know them.
    again: int = 0
    #: How often periodic tasks ran.
    times: int = 0

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, doubled or odd."""
        return not (self.lost or self.doubled or self.odd)

    @property
    def problems(self) -> list[str]:
        """All that is wrong."""
        kinds = {"lost": self.lost, "doubled": self.doubled, "odd": self.odd}
        return [f"{what}: {text}" for what, texts in kinds.items() for text in texts]


def judge(plan: Plan, found: Found) -> Verdict:
    """Say what became of each call, of the periodic tasks and of whatever else still waits."""
    fates = tuple(_fate(call, found) for call in plan.calls)
    by_verdict: dict[str, list[str]] = {LOST: [], DOUBLED: [], ODD: []}
    for fate in fates:
        if fate.verdict != DONE:
            by_verdict[fate.verdict].append(f"{fate.call.key} ({fate.call.kind}): {fate.words}")
    by_verdict[LOST] += [text for text in found.waiting if plan.prefix not in text]
    for text in _odd_times(found.ticks):
        by_verdict[LOST if text.endswith(_MISSED) else DOUBLED].append(text)
    known = {call.key for call in plan.calls}
    by_verdict[ODD] += [
        f"{key}: effects of no call"
        for key in found.effects
        if key.startswith(plan.prefix) and key not in known
    ]
    again = sum(call.kind in PLAIN and found.sent.get(call.name, 0) > 1 + call.repeats for call in plan.calls)
    times = sum(map(len, found.ticks.values()))
    lost, doubled, odd = (tuple(by_verdict[verdict]) for verdict in (LOST, DOUBLED, ODD))
    return Verdict(fates, lost, doubled, odd, again, times)


def parts_of(call: Call) -> set[str]:
    """The effects that a call has to have, each once."""
    match call.kind:
        case Kind.RETURNED | Kind.REFUSED | Kind.FOLLOWED:
            return set()
        case Kind.STEPPED:
            return {"first", "second"}
        case Kind.BATCH:
            chunks = {f"plan {offset}" for offset in range(0, RECORDS, CHUNK)}
            return {*chunks, *(f"record {index}" for index in range(RECORDS)), "callback"}
        case _:
            return {""}


def state_of(call: Call) -> str:
    """The state in which its key has to end."""
    return "failed" if call.kind is Kind.REFUSED else "succeeded"


def _fate(call: Call, found: Found) -> Fate:
    """The worst of what can be said of a call."""
    for verdict, words in (*_lost(call, found), *_doubled(call, found), *_odd(call, found)):
        return Fate(call, verdict, words)
    return Fate(call, DONE, _how(call, found))


def _lost(call: Call, found: Found) -> Iterator[tuple[str, str]]:
    if call.kind is Kind.BATCH:
        state = found.batches.get(call.key, "unknown to the ledger")
        if state != "finished":
            yield LOST, f"the batch is {state}"
    elif (key := found.keys.get(call.key)) is None:
        yield LOST, "unknown to the ledger"
    elif key.state != state_of(call):
        yield LOST, f"its key is {key.state}, not {state_of(call)}"
    missing = parts_of(call) - set(found.effects.get(call.key, {}))
    if missing:
        yield LOST, f"without its effect {', '.join(sorted(missing)) or 'of the body'}"
    if call.kind in CHARGED and call.key not in found.charges:
        yield LOST, "the provider was never asked"
    seen, changes = found.seen.get(call.key, 0), found.changes.get(call.key, 0)
    if call.kind is Kind.FOLLOWED and seen < changes:
        yield LOST, f"its last body has seen {seen} of {changes} changes"


def _doubled(call: Call, found: Found) -> Iterator[tuple[str, str]]:
    for part, times in found.effects.get(call.key, Counter()).items():
        if times > 1:
            yield DOUBLED, f"its effect {part or 'of the body'} was written {times} times"
    distinct, asked = found.charges.get(call.key, (0, 0))
    if distinct > 1:
        yield DOUBLED, f"charged {distinct} times in {asked} requests"


def _odd(call: Call, found: Found) -> Iterator[tuple[str, str]]:
    unasked = set(found.effects.get(call.key, {})) - parts_of(call)
    if unasked:
        yield ODD, f"has effects that nobody asked for: {', '.join(sorted(unasked))}"
    if call.key in found.unfenced:
        yield ODD, f"its effect has token {found.unfenced[call.key]}, another one than its key"


def _how(call: Call, found: Found) -> str:
    """How a call came to its end, in words."""
    words = [f"sent {found.sent.get(call.name, 0)} times"]
    if key := found.keys.get(call.key):
        words.append(f"{key.attempts} attempts")
        words += [f"{number} {what}" for number, what in ((key.crashes, "crashes"),) if number]
    if call.key in found.charges:
        words.append(f"provider asked {found.charges[call.key][1]} times")
    return ", ".join(words)


def _odd_times(ticks: dict[str, list[datetime]]) -> Iterator[str]:
    """Periodic tasks that never ran, and times that did not run between the first and the last, or twice."""
    yield from (f"every {name} never ran" for name in PERIODIC if not ticks.get(f"every {name}"))
    step = timedelta(seconds=PERIOD)
    jobs = {
        name: Job(grid(times[0], times[-1], step), tuple(times)) for name, times in ticks.items() if times
    }
    yield from deviations(jobs)
