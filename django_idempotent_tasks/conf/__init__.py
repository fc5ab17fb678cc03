"""What a project configures: its settings, and the options of its tasks.

Whatever reads and checks a configured value comes in here; an error names the value and the remedy.
"""

from __future__ import annotations

from .project import settings

__all__ = ["settings"]
