"""Describes the attempt by tags on Sentry's current scope."""

from __future__ import annotations

import sentry_sdk

from .attributes import Described, describe


def tag_scope(described: Described) -> None:
    """Set the tags of an attempt, or of a refusal; nothing where Sentry was not initialised."""
    if sentry_sdk.is_initialized():
        for name, value in described.items():
            sentry_sdk.set_tag(name, value)


def connect() -> None:
    """Tag each attempt and each refusal."""
    describe(tag_scope, uid=__name__)
