"""The message header ``idempotency``: a call's identity, on its way from where the call was made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from .identity import scope_problem
from .key_text import KEY_TEXT_LENGTH, for_people
from .outcomes import Identity

_VERSION = 1
#: Longest task id that the ledger can name.
TASK_ID_LIMIT = 255
_HEX_DIGEST = re.compile(r"[0-9a-f]{32}")
_NOT_IN_AN_ID = re.compile(r"[\x00\ud800-\udfff]")

#: What only a call in a canvas carries, and what Celery says of its place there.
_CARRIED = ("chord", "group_id", "link", "link_error", "replaced_task_nesting")
_PLACED = ("chain", "group_index", "parent_id", "root_id")


def to_header(
    identity: Identity, *, task_name: str, task_id: str, reserved: bool = False, in_canvas: bool = False
) -> dict[str, object]:
    """Return the identity as a message header, bound to this task and this task id.

    ``reserved`` says that the key's row was written when the call was sent; ``in_canvas`` that others
    wait for what becomes of it.
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
    marks = {"reserved": reserved, "canvas": in_canvas}
    return header | {name: True for name, is_set in marks.items() if is_set}


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


def task_id_problem(task_id: object) -> str | None:
    """What keeps the ledger from naming a call; None when nothing does."""
    if not isinstance(task_id, str):
        return f"is a {type(task_id).__qualname__}; give str(...) of it"
    if len(task_id) > TASK_ID_LIMIT or _NOT_IN_AN_ID.search(task_id):
        return f"is over {TASK_ID_LIMIT} characters or has a NUL or a lone surrogate in it"
    return None


def is_reserved(header: object) -> bool:
    """Whether the call's row was written when it was sent."""
    return isinstance(header, dict) and header.get("reserved") is True


def sends_a_canvas(options: Mapping[str, Any]) -> bool:
    """Whether these options of ``apply_async`` are those of a call that others wait for.

    The last call of a chain has an empty ``chain``, where one outside has none.
    """
    return any(map(options.get, _CARRIED)) or any(options.get(name) is not None for name in _PLACED)


def is_in_canvas(header: object) -> bool:
    """Whether a chain, a group, a chord or a callback sent the call: it gets a real value in any case."""
    return isinstance(header, dict) and header.get("canvas") is True


def _is_addressed(header: dict[object, object], *, task_name: str, task_id: str) -> bool:
    is_ours = header.get("v") == _VERSION and type(header["v"]) is int  # not True, which equals 1
    return is_ours and header.get("task") == task_name and header.get("id") == task_id


def _is_hex(value: object) -> bool:
    return isinstance(value, str) and _HEX_DIGEST.fullmatch(value) is not None
