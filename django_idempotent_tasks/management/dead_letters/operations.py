"""``idem redrives``: lists, shows, follows and stops operations that redrive many dead letters."""

from __future__ import annotations

import time

from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import OperationState, RedriveOperation
from ...operations.findings import no_sweeper
from ...operations.redrives import dead_again, stop, words_of
from ...operations.status import is_led
from ...operations.text import since, table
from ..cli.reason import reason_of, who
from ..cli.report import FINDINGS, FINE, Options, Report, Say

#: Seconds between two reads, and after how many seconds without a sweeper the command stops waiting.
PAUSE, PATIENCE = 1.0, 30.0

_GOES_ON = "The redrive goes on; 'idem redrives stop {}' stops it."


def list_redrives(store: LedgerStore, options: Options, _say: Say) -> Report:
    """List the newest operations, in whatever state."""
    now, limit = database_now(store), options["limit"]
    found = RedriveOperation.objects.using(store.connection.alias).order_by("-id")
    rows = list(found[:limit])
    facts = {"redrives": [operation_facts(row) for row in rows]}
    if not rows:
        return Report(facts, ["No redrives of many dead letters."])
    head = ("id", "state", "done", "skipped", "of", "rate", "by", "begun", "selection", "reason")
    lines = table(
        [
            head,
            *(
                (
                    row.pk,
                    OperationState(row.state).label,
                    row.redriven,
                    row.skipped,
                    row.total,
                    "-" if row.rate is None else f"{row.rate}/s",
                    row.created_by,
                    f"{since(row.created_at, now)} ago",
                    words_of(row),
                    row.reason,
                )
                for row in rows
            ),
        ]
    )
    return Report(facts, lines)


def operation_facts(row: RedriveOperation) -> dict[str, object]:
    """For JSON."""
    return {
        "id": row.pk,
        "state": OperationState(row.state).label,
        "redriven": row.redriven,
        "skipped": row.skipped,
        "total": row.total,
        "rate": row.rate,
        "created": row.created_at,
        "created_by": row.created_by,
        "finished": row.finished_at,
        "stopped_by": row.stopped_by,
        "selection": words_of(row),
        "reason": row.reason,
    }


def begun(store: LedgerStore, operation: RedriveOperation) -> Report:
    """The report on an operation that has just begun: what happens next."""
    pace = "without a limit" if operation.rate is None else f"at most {operation.rate} a second"
    lines = [
        f"Redrive {operation.pk} of {operation.total:,} dead letter(s) has begun, {pace}.",
        f"'idem redrives follow {operation.pk}' waits for its end, 'stop {operation.pk}' stops it.",
    ]
    if not is_led(store):
        lines.append(no_sweeper())
    facts = {"outcome": "begun", **operation_facts(operation), "sweeper": is_led(store)}
    return Report(facts, lines)


def follow_redrive(store: LedgerStore, options: Options, say: Say) -> Report:
    """Wait until an operation has ended."""
    return wait_for(store, options["number"], say)


def wait_for(store: LedgerStore, number: int, say: Say) -> Report:
    """Print the progress of an operation until it ends, or until nobody has swept for ``PATIENCE``."""
    printed, unled = "", 0.0
    while True:
        row = find(store, number)
        if row is None:
            return no_redrive()
        if row.state != OperationState.RUNNING:
            return _ended(row)
        unled = 0.0 if is_led(store) else unled + PAUSE
        if unled > PATIENCE:
            return Report({"outcome": "waiting", **operation_facts(row)}, [no_sweeper()], FINDINGS)
        if (line := progress(row)) != printed:
            printed = line
            say(line)
        try:
            time.sleep(PAUSE)
        except KeyboardInterrupt:
            return Report({"outcome": "waiting", **operation_facts(row)}, [_GOES_ON.format(row.pk)])


def progress(row: RedriveOperation) -> str:
    """How far an operation is."""
    skipped = f", {row.skipped:,} skipped" if row.skipped else ""
    return f"{row.redriven:,} of {row.total:,} redriven{skipped} ..."


def show_redrive(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Show how far an operation is, and how many of its dead letters have failed again."""
    row = find(store, options["number"])
    if row is None:
        return no_redrive()
    number = dead_again(row, alias=store.connection.alias)
    facts = {**operation_facts(row), "dead_letters_again": None if number is None else number.facts()}
    state = OperationState(row.state).label
    lines = [f"Redrive {row.pk} of {words_of(row)} is {state}: {progress(row).removesuffix(' ...')}."]
    if number is not None and number.number:
        lines.append(
            f"{number} that fit the selection have ended as dead letters since: redriven calls that failed"
            " again, and calls that were running when the redrive began."
        )
    return Report(facts, lines)


def _ended(row: RedriveOperation) -> Report:
    how = f"was stopped by {harmless(row.stopped_by)}" if row.state == OperationState.STOPPED else "is done"
    lines = [f"Redrive {row.pk} {how}: {row.redriven:,} of {row.total:,} redriven."]
    if row.redriven:
        lines.append(f"'idem redrives show {row.pk}' tells how many have failed again.")
    if row.skipped:
        lines.append(f"{row.skipped:,} skipped: they had moved on, or their message is not stored.")
    is_fine = row.state == OperationState.DONE and not row.skipped
    facts = {"outcome": OperationState(row.state).label, **operation_facts(row)}
    return Report(facts, lines, FINE if is_fine else FINDINGS)


def stop_redrive(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Stop an operation."""
    reason, row = reason_of(options), find(store, options["number"])
    if row is None:
        return no_redrive()
    if row.state != OperationState.RUNNING:
        return _ended(row)
    if not options["yes"]:
        lines = [f"Dry run: would stop redrive {row.pk} here. {progress(row)}", "Say --yes to do it."]
        return Report({"outcome": "dry run", **operation_facts(row)}, lines)
    stopped = stop(row, by=who(), reason=reason, alias=store.connection.alias)
    row.refresh_from_db(using=store.connection.alias)
    if not stopped:
        return _ended(row)
    facts = {"outcome": "stopped", **operation_facts(row)}
    return Report(facts, [f"Stopped: {row.redriven:,} of {row.total:,} were redriven, and stay redriven."])


def find(store: LedgerStore, number: int) -> RedriveOperation | None:
    """The operation of an id."""
    return RedriveOperation.objects.using(store.connection.alias).filter(pk=number).first()


def no_redrive() -> Report:
    """The report where no operation has the id."""
    line = "There is no such redrive; 'idem redrives list' shows the newest."
    return Report({"redrive": None}, [line], FINDINGS)
