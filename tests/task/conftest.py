"""An app that runs every task where it is called."""

from __future__ import annotations

from tests.running.eager.conftest import app

__all__ = ["app"]
