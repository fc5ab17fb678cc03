"""The figures of a run as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchmarks.chaos.levels import Levels
from benchmarks.chaos.plan import PERIODIC, Kind
from benchmarks.chaos.possible import told
from benchmarks.chaos.run import Outcome
from benchmarks.chaos.verdict import DONE, DOUBLED, LOST, ODD
from benchmarks.figures.table import figure, render
from benchmarks.machine.machine import load

SHOWN = 20


def text_of(outcome: Outcome, levels: Levels, *, detailed: bool = True) -> str:
    """Everything but the single calls; ``detailed`` adds what the processes took."""
    parts = [_head(outcome), _kinds(outcome), _strikes(outcome)]
    if detailed:
        parts += [_processor(levels), _levels(levels)]
    if outcome.cuts:
        parts.append("\n".join(["Hosts that were cut off:", *(f"  {each}" for each in outcome.cuts)]))
    if outcome.left_out:
        parts.append("\n".join(told(outcome.left_out)))
    if outcome.notes:
        parts.append("\n".join(["Unusual:", *(f"  {note}" for note in outcome.notes)]))
    return "\n\n".join([*parts, verdict_of(outcome)])


def verdict_of(outcome: Outcome) -> str:
    """The last words: what was lost and doubled, with the ids."""
    verdict = outcome.verdict
    lines = []
    for what in ("lost", "doubled", "odd"):
        found = getattr(verdict, what)
        lines += [f"{what}: {text}" for text in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"{what}: and {len(found) - SHOWN} more")
    odd = f", odd: {len(verdict.odd)}" if verdict.odd else ""
    without = f"; left out here: {', '.join(outcome.left_out)}" if outcome.left_out else ""
    return "\n".join([*lines, f"lost: {len(verdict.lost)}, doubled: {len(verdict.doubled)}{odd}{without}"])


def _head(outcome: Outcome) -> str:
    plan, setting = outcome.plan, outcome.plan.setting
    twice = sum(1 for fate in outcome.verdict.fates if fate.call.repeats)
    return (
        f"seed {plan.seed}, plan {plan.digest}, {setting.database} and {setting.broker}:"
        f" {setting.calls} calls ({twice} of them sent twice by plan,"
        f" {outcome.verdict.again} again by their senders), {len(outcome.struck)} faults,"
        f" {outcome.seconds:.0f} s;"
        f" load at the end {load()}; {outcome.left_in_broker} messages left in the broker"
    )


def _kinds(outcome: Outcome) -> str:
    counts: Counter[tuple[Kind, str]] = Counter()
    for fate in outcome.verdict.fates:
        counts[fate.call.kind, fate.verdict] += 1
    verdicts = (DONE, LOST, DOUBLED, ODD)
    rows = [[kind.value, *(figure(counts[kind, verdict]) for verdict in verdicts)] for kind in Kind]
    taken_back = sum(fate.call.kind is Kind.RESERVED for fate in outcome.verdict.fates)
    also = (
        f"Judged as well: {outcome.verdict.times:,} times of {len(PERIODIC)} periodic tasks, and"
        f" {taken_back:,} calls whose transaction is rolled back, which must not run."
    )
    return "\n\n".join([render(["calls", *map(str.lower, verdicts)], rows), also])


def _strikes(outcome: Outcome) -> str:
    struck = Counter(each.fault.strike.value for each in outcome.struck)
    missed = Counter(
        each.fault.strike.value for each in outcome.struck if each.words.startswith(("nobody", "failed"))
    )
    rows = [[name, figure(number), figure(missed[name])] for name, number in struck.most_common()]
    return render(["faults", "", "missed"], rows)


def _processor(levels: Levels) -> str:
    seconds = levels.seconds()
    rows = [[role, figure(value, 1)] for role, value in sorted(seconds.items(), key=lambda item: -item[1])]
    return render(["processor seconds", ""], [*rows, ["together", figure(sum(seconds.values()), 1)]])


def _levels(levels: Levels) -> str:
    """Memory and tables at the start, in the middle and at the end, and at most."""
    samples = [sample for sample in levels.samples if sample.memory]
    if not samples:
        return "Memory was not sampled."
    chosen = [samples[0], samples[len(samples) // 2], samples[-1]]
    heads = [f"{sample.at:.0f} s" for sample in chosen] + ["most"]
    roles = sorted({role for sample in samples for role in sample.memory})
    memory = [
        [role, *(figure(sample.memory.get(role), 1) for sample in chosen), figure(_most(levels, role), 1)]
        for role in roles
    ]
    return "\n\n".join([render(["MB of the largest", *heads], memory), _tables(levels, heads)])


def _tables(levels: Levels, heads: list[str]) -> str:
    samples = [sample for sample in levels.samples if sample.rows]
    if not samples:
        return "Tables were not sampled."
    chosen = [samples[0], samples[len(samples) // 2], samples[-1]]
    names = [name for name in samples[-1].rows if any(sample.rows.get(name) for sample in samples)]
    rows = [
        [
            name,
            *(figure(sample.rows.get(name)) for sample in chosen),
            figure(max(sample.rows.get(name, 0) for sample in samples)),
        ]
        for name in names
    ]
    return render(["rows", *heads], rows)


def _most(levels: Levels, role: str) -> float:
    return max(_known(levels, role))


def _known(levels: Levels, role: str) -> Iterator[float]:
    return (sample.memory[role] for sample in levels.samples if role in sample.memory)
