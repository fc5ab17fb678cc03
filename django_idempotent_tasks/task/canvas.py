"""Tells whether a call belongs to a chain, group or chord, or has callbacks, so that others wait for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from celery.canvas import Signature, chain, chord, group

_CANVASES = frozenset(kind.apply.__code__ for kind in (chain, chord, group))
_SIGNATURE = Signature.apply.__code__

#: Options that only a call in a canvas has, and those by which Celery notes its place there.
_CARRIED = ("chord", "group_id", "link", "link_error", "replaced_task_nesting")
_PLACED = ("chain", "group_index", "parent_id", "root_id")


def sends_a_canvas(options: Mapping[str, Any]) -> bool:
    """Whether these options of ``apply_async`` are those of a call that others wait for.

    The last call of a chain has an empty ``chain``, a call outside of chains has none.
    """
    return any(map(options.get, _CARRIED)) or any(options.get(name) is not None for name in _PLACED)


def is_applied_by_a_canvas() -> bool:
    """Whether a chain, a group or a chord has called the ``apply`` of a task; for ``apply`` to ask.

    Celery does not tell an eager task.
    """
    frame = sys._getframe(2)  # noqa: SLF001  only the call stack shows it
    if frame.f_code is not _SIGNATURE:
        return False
    callers = [frame.f_back, frame.f_back and frame.f_back.f_back]  # a comprehension may be between
    return any(caller is not None and caller.f_code in _CANVASES for caller in callers)
