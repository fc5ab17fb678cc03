"""Whether a call belongs to a chain, a group or a chord, or has callbacks: others wait for its result."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from celery.canvas import Signature, chain, chord, group

_CANVASES = frozenset(kind.apply.__code__ for kind in (chain, chord, group))
_SIGNATURE = Signature.apply.__code__

#: What only a call in a canvas carries, and what Celery says of its place there.
_CARRIED = ("chord", "group_id", "link", "link_error", "replaced_task_nesting")
_PLACED = ("chain", "group_index", "parent_id", "root_id")


def sends_a_canvas(options: Mapping[str, Any]) -> bool:
    """Whether these options of ``apply_async`` are those of a call that others wait for.

    The last call of a chain has an empty ``chain``, where one outside has none.
    """
    return any(map(options.get, _CARRIED)) or any(options.get(name) is not None for name in _PLACED)


def is_applied_by_a_canvas() -> bool:
    """Whether a chain, a group or a chord has called the ``apply`` of a task, which asks this.

    Celery does not tell a task that is run where its call is made.
    """
    frame = sys._getframe(2)  # noqa: SLF001  the only trace of it
    if frame.f_code is not _SIGNATURE:
        return False
    callers = [frame.f_back, frame.f_back and frame.f_back.f_back]  # a comprehension may be between
    return any(caller is not None and caller.f_code in _CANVASES for caller in callers)
