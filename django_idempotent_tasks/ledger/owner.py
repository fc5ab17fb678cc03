"""Owner ids ``<worker>:<pid>:<random>``, one per claim. The prefix tells which process holds the key."""

from __future__ import annotations

import os
from uuid import uuid4

# Made before a worker forks, so that parent and children share it; a new worker has a new one.
_instance = uuid4().hex


def instance() -> str:
    """The id of this worker instance."""
    return _instance


def renew_instance() -> None:
    """Make a new id where a worker starts: workers forked from one preloaded process must not share one."""
    global _instance  # noqa: PLW0603  one instance a worker is the point
    _instance = uuid4().hex


def new_owner() -> str:
    """``<worker instance>:<pid>:<random per claim>``, at most 80 characters."""
    return f"{_instance}:{os.getpid()}:{os.urandom(8).hex()}"
