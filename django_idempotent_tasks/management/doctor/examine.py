"""Runs the doctor: settings and tasks, and with ``--live`` the servers too."""

from __future__ import annotations

from collections import Counter

from ...ledger.stores import LedgerStore
from ...operations.doctor.check import Finding, Severity
from ...operations.doctor.examine import LIVE, STATIC, examine, in_order
from ...operations.doctor.live import ask
from ..cli.project import project_app
from ..cli.report import FINDINGS, FINE, Options, Report, Say, could_not_run
from .sarif import sarif


def doctor(_store: LedgerStore | None, options: Options, say: Say) -> Report:
    """Examine the project; warnings and errors make the exit code 1, advice does not."""
    app = project_app()
    try:
        found = examine(app)
    except Exception as error:  # the task modules are the project's own code
        msg = f"The project's tasks cannot be imported ({type(error).__name__}: {error})."
        raise could_not_run(msg) from error
    if options["live"]:
        say("Asks the broker, the database and the workers ...")
        found = in_order([*found, *ask(app, options["database"])])
    least = Severity[str(options["fail_level"]).upper()]
    code = FINDINGS if any(each.severity >= least for each in found) else FINE
    if options["format"] == "sarif":
        return Report(sarif(found), [], code)
    return Report(_facts(found, live=options["live"]), _lines(found, live=options["live"]), code)


def _facts(found: list[Finding], *, live: bool) -> dict[str, object]:
    return {
        "live": live,
        "counts": _counts(found),
        "findings": [
            {
                "id": each.id,
                "severity": each.severity.name.lower(),
                "subject": each.subject,
                "saw": each.saw,
                "why": each.why,
                "remedy": each.remedy,
                "link": each.link,
            }
            for each in found
        ],
    }


def _looked_at(*, live: bool) -> int:
    """How many checks of the doctor were made, system checks beside."""
    return sum(len(group.checks) for group in (*STATIC, *(LIVE if live else ())))


def _counts(found: list[Finding]) -> dict[str, int]:
    counted = Counter(each.severity for each in found)
    return {severity.name.lower(): counted[severity] for severity in reversed(Severity)}


def _lines(found: list[Finding], *, live: bool) -> list[str]:
    lines: list[str] = []
    for each in found:
        lines.append(f"{each.severity.name.lower()} {each.id} ({each.subject}): {each.saw}")
        lines += [f"    {text}" for text in (each.why, each.remedy) if text]
        lines.append(f"    {each.link}")
    counts = ", ".join(_counted(number, name) for name, number in _counts(found).items() if number)
    total = f"{_counted(len(found), 'finding')} ({counts})" if found else "Nothing found by any"
    scope = "settings, tasks and servers" if live else "settings and tasks; --live asks the servers too"
    lines.append(f"{total} of {_looked_at(live=live)} checks ({scope}).")
    return lines


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 or name == "advice" else f"{number} {name}s"
