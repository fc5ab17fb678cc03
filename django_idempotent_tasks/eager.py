"""Whether a call that is run where it is made belongs to a canvas: Celery does not tell the task then."""

from __future__ import annotations

import sys

from celery.canvas import Signature, chain, chord, group

_CANVASES = frozenset(kind.apply.__code__ for kind in (chain, chord, group))
_SIGNATURE = Signature.apply.__code__


def is_applied_by_a_canvas() -> bool:
    """Whether a chain, a group or a chord has called the ``apply`` of a task, which asks this."""
    frame = sys._getframe(2)  # noqa: SLF001  the only trace of it
    if frame.f_code is not _SIGNATURE:
        return False
    callers = [frame.f_back, frame.f_back and frame.f_back.f_back]  # a comprehension may be between
    return any(caller is not None and caller.f_code in _CANVASES for caller in callers)
