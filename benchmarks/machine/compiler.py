"""The C compiler, for libraries that bend what a process sees of its machine."""

from __future__ import annotations

import shutil


def compiler(purpose: str) -> str:
    """Its path; raises LookupError without one, and says what it is needed for."""
    found = shutil.which("cc")
    if found is None:
        msg = f"{purpose} needs a C compiler: install one, such as gcc, as cc."
        raise LookupError(msg)
    return found
