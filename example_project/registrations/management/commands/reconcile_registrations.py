"""``manage.py reconcile_registrations``: payments that are open for long are asked for again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from example_project.registrations.reconciling import ask_for_open_payments, open_payments


class Command(BaseCommand):
    """Safe to run again: nothing is paid twice, and what is being asked for is not asked for beside it."""

    help = "Ask the provider again for payments that are pending for over an hour. A dry run until --yes."

    def add_arguments(self, parser: CommandParser) -> None:
        """Name the options."""
        parser.add_argument("--minutes", type=int, default=60, help="how long a payment may be pending")
        parser.add_argument(
            "--yes", action="store_true", help="ask; otherwise only say what would be asked for"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        """Say how many there are, and ask for them with ``--yes``."""
        before = timezone.now() - timedelta(minutes=options["minutes"])
        if options["yes"]:
            asked, others = ask_for_open_payments(before)
            self.stdout.write(f"asked for {asked} payments; {others} are being asked for already")
        else:
            count = open_payments(before).count()
            self.stdout.write(f"{count} payments are pending for over {options['minutes']} minutes")
            self.stdout.write("This was a dry run. With --yes they are asked for again.")
