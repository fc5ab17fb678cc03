"""``manage.py idem``: shows the ledger, sweeps and prunes it, and decides on keys and dead letters."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import Error as DatabaseError
from django.db import connections

from ...conf import settings
from ...exceptions import ConfigurationError
from ...ledger.stores import LedgerStore, get_store
from ..cli.arguments import checked
from ..cli.report import Report, could_not_run
from ..parser import add_commands


class Command(BaseCommand):
    """Exit code 0: fine; 1: there are findings; 2: the command could not run; the error says what to do."""

    help = "Look at the ledger of idempotent tasks, sweep it, prune it, decide on keys and dead letters."
    # A task with a wrong option must not keep an operator from using the command.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_commands(parser)

    def handle(self, **options: Any) -> None:
        form = options["format"]
        aloud = options.get("streams", False) or (form == "text" and options["verbosity"] > 0)
        report = self._report(checked(options), aloud=aloud)
        if not report.is_silent:
            self.stdout.write(report.render(form))
        if report.code:
            sys.exit(report.code)

    def _report(self, options: dict[str, Any], *, aloud: bool) -> Report:
        try:
            store = _ledger(options["database"]) if options.get("needs_ledger", True) else None
            report: Report = options["action"](store, options, self._say if aloud else _silent)
        except ConfigurationError as error:
            raise could_not_run(str(error)) from error
        except DatabaseError as error:
            raise could_not_run(_database_remedy(error)) from error
        return report

    def _say(self, line: str) -> None:
        try:
            self.stdout.write(line)
            self.stdout.flush()
        except BrokenPipeError:  # `| head` has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)


def _silent(line: str) -> None:
    """Print no progress: JSON is one document."""


def _ledger(alias: str | None) -> LedgerStore:
    """The store of ``--database``, or of the settings."""
    if alias is not None and alias not in connections:
        raise could_not_run(f"No database {alias!r} in DATABASES; use one of {', '.join(connections)}.")
    return get_store(alias or settings().database)


def _database_remedy(error: DatabaseError) -> str:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    noted = " ".join(getattr(error, "__notes__", ()))
    return (
        f"The ledger's database failed ({first})."
        f" {noted or 'Is it up, and are its tables there (manage.py migrate django_idempotent_tasks)?'}"
    )
