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

    def with_begin(self, cursor: Any, statement: str, execute: Callable[[str], Any]) -> Any:  # noqa: ARG002
        """Execute what may be the first statement of a transaction, in one message with BEGIN if that can be.

        ``execute`` gets the text, and the cursor is where it would be without BEGIN.
        """
        return execute(statement)
