"""Writes and reads the message header ``idempotency``, which carries a call's identity to the worker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from ..identity.key import Identity, scope_problem
from ..identity.names import is_same
from ..identity.text import KEY_TEXT_LENGTH, for_people

#: The name of the header that carries a call's identity.
HEADER = "idempotency"
#: The mark in it that the key's row was written when the call was sent.
RESERVED = "reserved"
#: The mark in it that others wait for the call's result.
_CANVAS = "canvas"
#: When the call was made, in seconds by the sender's clock: only where TELEMETRY measures waits.
SENT = "sent"
#: The header of a call in shadow mode that has no key: its arguments have none, or what was stated is none.
UNKEYED: dict[str, Any] = {"unkeyed": True}
#: How deep a call's headers may be nested: sentry-sdk and ddtrace fill ``headers["headers"]``, which Celery
#: then takes for all headers, and a retry of such a message may nest them again.
_PLACES = 3

_VERSION = 1
#: Longest task id that the ledger can name.
TASK_ID_LIMIT = 255
_HEX_DIGEST = re.compile(r"[0-9a-f]{32}")
_NOT_IN_AN_ID = re.compile(r"[\x00\ud800-\udfff]")


def to_header(
    identity: Identity, *, task_name: str, task_id: str, reserved: bool = False, in_canvas: bool = False
) -> dict[str, object]:
    """Return the identity as a message header, bound to this task and this task id.

    ``reserved``: the key's row was written when the call was sent. ``in_canvas``: others wait for its result.
    """
    header: dict[str, object] = {
        "v": _VERSION,
        "task": task_name,
        "id": task_id,
        "digest": identity.digest.hex,
        "scope": identity.scope,
        "key": identity.key_text,
        "fp": identity.fingerprint and identity.fingerprint.hex,
    }
    if reserved:
        header[RESERVED] = True
    if in_canvas:
        header[_CANVAS] = True
    return header


def from_header(header: object, *, task_name: str, task_id: str) -> Identity | None:
    """Return the identity that travelled with a message.

    None when there is none for this task and task id: absent, of another version, malformed, or
    copied from another call by a project that forwards ``self.request.headers``. Never raises.
    """
    if not isinstance(header, dict) or not _is_addressed(header, task_name=task_name, task_id=task_id):
        return None
    digest, fingerprint, scope, key_text = map(header.get, ("digest", "fp", "scope", "key"))
    if not (
        _is_hex(digest)
        and (fingerprint is None or _is_hex(fingerprint))
        and (scope is None or (isinstance(scope, str) and scope_problem(scope) is None))
        and (isinstance(key_text, str) and len(key_text) <= KEY_TEXT_LENGTH)
    ):
        return None
    return Identity(
        UUID(digest), scope, for_people(str(key_text)), UUID(fingerprint) if fingerprint else None
    )


class Carried(NamedTuple):
    """The identity that travelled with a message, and its header with the marks in it."""

    identity: Identity
    header: dict[str, Any]

    @property
    def task(self) -> str:
        """The task's name when the call was made, which its row has: an earlier one of a renamed task."""
        return str(self.header["task"])


def carried(message: object, *, task_name: str, task_id: str) -> Carried | None:
    """This call's own identity among a message's headers, however deep others have nested them.

    ``message`` is any of: the headers themselves, a request as a dict, ``vars()`` of a request. Celery makes
    each header an attribute of the request, also one named ``headers``. None as in :func:`from_header`;
    never raises.
    """
    place = message
    for _ in range(_PLACES):
        if type(place) is not dict and not isinstance(place, Mapping):
            return None
        header: Any = place.get(HEADER)
        identity = from_header(header, task_name=task_name, task_id=task_id)
        if identity is not None:
            return Carried(identity, header)
        place = place.get("headers")
    return None


def carry(request: Any, header: dict[str, Any]) -> None:
    """Put the identity into both places of a running request, for every message sent in its place."""
    vars(request)[HEADER] = header
    request.headers = {**(request.headers or {}), HEADER: header}


def with_identity(headers: object, request: Any, *, task_name: str) -> dict[str, Any]:
    """The headers of a message that is sent in a request's place, with the identity of the request."""
    own = carried(vars(request), task_name=task_name, task_id=request.id)
    given = dict(headers) if isinstance(headers, Mapping) else {}
    return given if own is None else {**given, HEADER: own.header}


def task_id_problem(task_id: object) -> str | None:
    """Why the ledger cannot hold a task id; None where it can."""
    if not isinstance(task_id, str):
        return f"is a {type(task_id).__qualname__}; give str(...) of it"
    if len(task_id) > TASK_ID_LIMIT or _NOT_IN_AN_ID.search(task_id):
        return f"is over {TASK_ID_LIMIT} characters or has a NUL or a lone surrogate in it"
    return None


def is_reserved(header: object) -> bool:
    """Whether the call's row was written when the call was sent."""
    return isinstance(header, dict) and header.get(RESERVED) is True


def is_in_canvas(header: object) -> bool:
    """Whether a chain, group, chord or callback sent the call, which then gets a real value in any case."""
    return isinstance(header, dict) and header.get(_CANVAS) is True


def is_unkeyed(message: Mapping[str, Any]) -> bool:
    """Whether the sender found no key for this call, which it sent all the same."""
    return bool(message.get(HEADER) == UNKEYED)


def _is_addressed(header: dict[object, object], *, task_name: str, task_id: str) -> bool:
    named = header.get("task")
    is_ours = header.get("v") == _VERSION and type(header["v"]) is int  # not True, which equals 1
    return is_ours and isinstance(named, str) and is_same(named, task_name) and header.get("id") == task_id


def _is_hex(value: object) -> bool:
    return isinstance(value, str) and _HEX_DIGEST.fullmatch(value) is not None
