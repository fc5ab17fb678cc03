"""Says who changes something and why, for the log."""

from __future__ import annotations

import getpass
import os

from .report import Options, could_not_run


def who() -> str:
    """The person at the shell, as the system knows them."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no name for this user
        return f"user {os.getuid()}"


def reason_of(options: Options) -> str:
    """The text of ``--reason``. Raises CommandError where ``--yes`` is given without one."""
    reason = str(options.get("reason") or "").strip()
    if options["yes"] and not reason:
        raise could_not_run("--reason must say why: it is kept with your name.")
    return reason
