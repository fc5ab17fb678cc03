"""Its database router."""

from __future__ import annotations


class Elsewhere:
    """Puts every table elsewhere."""

    def allow_migrate(self, *_call: object, **_hints: object) -> bool:
        """Never here."""
        return False
