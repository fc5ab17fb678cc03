"""Names of owners: every claim has its own, so that an owner is one claim and tells whose child held it."""

from __future__ import annotations

import os
from uuid import uuid4

# Made before a worker forks, so that parent and children share it; a new worker has a new one.
_instance = uuid4().hex


def instance() -> str:
    """This worker instance."""
    return _instance


def renew_instance() -> None:
    """A new instance: called where a worker starts, so that a preloaded parent's name is not shared."""
    global _instance  # noqa: PLW0603  one instance a worker is the point
    _instance = uuid4().hex


def new_owner() -> str:
    """``<worker instance>:<pid>:<random per claim>``, at most 80 characters."""
    return f"{_instance}:{os.getpid()}:{uuid4().hex[:16]}"
