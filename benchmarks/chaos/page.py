"""A run as one page of HTML that needs nothing else: figures, each fault, each call and its fate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from benchmarks.chaos.levels import Levels
from benchmarks.chaos.plan import Kind
from benchmarks.chaos.report import text_of, verdict_of
from benchmarks.chaos.run import Outcome
from benchmarks.chaos.verdict import DONE

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
pre { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .15rem .6rem; border-bottom: 1px solid #8884; }
.bad { color: #c00; font-weight: 600; }
.good { color: #080; font-weight: 600; }
"""


def page_of(outcome: Outcome, levels: Levels) -> str:
    """The whole page."""
    title = f"Chaos run of seed {outcome.plan.seed}"
    holds = "good" if outcome.verdict.holds else "bad"
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>',
        f"<style>{STYLE}</style><h1>{title}</h1>",
        f'<p class="{holds}">{escape(verdict_of(outcome).splitlines()[-1])}</p>',
        f"<pre>{escape(text_of(outcome, levels))}</pre>",
        "<h2>Faults</h2>",
        _table(
            ("", "s", "calls ended", "fault", "what was done"),
            (
                (each.fault.number, f"{each.at:.1f}", f"{each.progress:.1%}", each.fault.strike, each.words)
                for each in outcome.struck
            ),
        ),
        "<h2>Calls</h2>",
        *(_calls(outcome, kind) for kind in Kind),
        "</html>",
    ]
    return "\n".join(parts)


def _calls(outcome: Outcome, kind: Kind) -> str:
    fates = [fate for fate in outcome.verdict.fates if fate.call.kind is kind]
    bad = [fate for fate in fates if fate.verdict != DONE]
    rows = (
        (fate.call.number, fate.call.key, fate.verdict, fate.words)
        for fate in [*bad, *(fate for fate in fates if fate.verdict == DONE)]
    )
    table = _table(("", "key", "fate", "how"), rows)
    is_open = " open" if bad else ""
    return f"<details{is_open}><summary>{escape(kind)}: {len(fates)}</summary>{table}</details>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "\n".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
