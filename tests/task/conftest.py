"""An app that runs every task where it is called."""

from __future__ import annotations

from tests.support.eager import app

__all__ = ["app"]
