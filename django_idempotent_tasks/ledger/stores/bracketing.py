"""The part of a store's contract that saves round trips: what may go out together with BEGIN or COMMIT."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..values import Claim


class Bracketing:
    """A store that can do neither leaves both to Django and the driver."""

    def carrying(
        self,
        claim: Claim,  # noqa: ARG002
        lost: Callable[[], Exception],  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Inside, a transaction may end with a statement that its COMMIT carries.

        :meth:`complete`, :meth:`keep_step` and :meth:`keep_outcomes` of this claim may be true too early
        then: where the claim is not the owner any more, COMMIT raises what ``lost`` makes, and nothing of
        the transaction is written.
        """
        return nullcontext()

    def with_begin(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        """Execute what may be the first statement of a transaction, in one message with BEGIN if that can be.

        An execute wrapper, for the last place: those of the project see the statement as it is.
        """
        return execute(sql, params, many, context)
