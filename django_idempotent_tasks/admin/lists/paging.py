"""Pages of big tables: rows are counted up to a bound, and never all of them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.core.paginator import Paginator

from ...operations.counts import CAP
from .window import number


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # generic in the stubs only
    """Pages as far as ``CAP`` rows reach; ``is_capped`` where there are more."""

    @cached_property
    def _looked_at(self) -> int:
        rows: Any = self.object_list
        return number(rows, CAP + 1)

    @cached_property
    def count(self) -> int:
        """Rows that can be paged through."""
        return min(self._looked_at, CAP)

    @property
    def is_capped(self) -> bool:
        """Whether there are more rows than are counted."""
        return self._looked_at > CAP
