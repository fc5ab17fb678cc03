"""Makes the calls of a list in the form of its first one: as texts, and as objects once somebody asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from ..conf import settings
from ..identity.key import Identity, opening, scope_problem
from ..identity.names import first_name
from ..identity.text import for_people
from ..identity.usual import Usual, usual_of
from ..ledger.ledger import Ledger
from ..ledger.values import Call
from ..messages.mould import Cast, Mould, quoted_or_null
from ..messages.places import plain_json, quoted
from ..states import State
from .result import accepted_result
from .submission import Submission

#: The hexadecimal digits of a digest.
_DIGITS = 32
#: What kombu takes for an encoded object: whether it can be read has to be tried.
_ENCODED = '"__type__"'


class Form:
    """What calls of a list have in common that are alike and whose keys are made of plain arguments."""

    def __init__(self, task: Any, mould: Mould, ledger: Ledger, scope: str | None, usual: Usual) -> None:
        self.task = task
        self.name: str = task.name
        self.ledger = ledger
        self.scope = scope
        self.republish = settings().republish_after
        self.is_ignored = bool(mould.sample.options.get("ignore_result"))
        self._mould = mould
        self._usual = usual
        self._scope_text = quoted_or_null(scope)
        self._opening = opening(first_name(task.name), scope)

    @classmethod
    def of(cls, task: Any, mould: Mould, ledger: Ledger, scope: object) -> Form | None:
        """None where each key has to be looked at more closely."""
        rules = ledger.policy.key_rules
        usual = usual_of(rules) if rules.redact() is None else None
        if usual is None or not (scope is None or (type(scope) is str and scope_problem(scope) is None)):
            return None
        return cls(task, mould, ledger, scope, usual)

    def listed(self, args: Sequence[Any], kwargs: Mapping[str, Any], task_id: str) -> Listed | None:
        """The call with these arguments; None for one that needs a closer look. Raises TypeError."""
        args_text = plain_json(args if type(args) is list else [*args])
        kwargs_text = plain_json(kwargs) if kwargs else "{}"
        if args_text is None or kwargs_text is None:
            return None
        texts = self._usual.texts(args, kwargs)
        if texts is None:
            return None
        digest = sha256(f"{self._opening}{texts[0]}]".encode("ascii")).hexdigest()[:_DIGITS]
        key_text = for_people(texts[1])
        own = {
            "digest": f'"{digest}"',
            "scope": self._scope_text,
            "key": quoted(key_text),
            "fp": "null",
        }
        made = self._mould.of_texts(own, quoted(task_id), args_text, kwargs_text)
        if made is None or _ENCODED in made[0]:
            return None
        return Listed(self, digest, key_text, task_id, *made)


class Listed:
    """A call of a list, on its way in: due at once, and a :class:`~..ledger.reservable.Reservable`."""

    wait = sends = 0
    fingerprint = None

    def __init__(
        self, form: Form, digest: str, key_text: str, task_id: str, message: str, cast: Cast
    ) -> None:
        self.form = form
        self.hex = digest
        self.key_text = key_text
        self.task_id = task_id
        self.message = message
        self.cast = cast
        self.task = form.name
        self.scope = form.scope
        self.republish = form.republish

    @cached_property
    def identity(self) -> Identity:
        """The identity of the call."""
        return Identity(UUID(self.hex), self.scope, self.key_text, None)

    @cached_property
    def call(self) -> Call:
        """The call as its row holds it."""
        return Call(self.identity, self.task, self.task_id, self.message)

    def accepted(self) -> Submission:
        """What ``submit`` says of it; its result is made when somebody asks."""
        form = self.form
        later: Any = Later(form.task, self.task_id, self.hex, form.is_ignored)
        return Submission(later, True, State.PENDING, self.key_text)  # noqa: FBT003  created


class Later(NamedTuple):
    """Makes the result of an accepted call; keeps no message in memory."""

    task: Any
    task_id: str
    digest: str
    is_ignored: bool

    def __call__(self) -> Any:
        result = accepted_result(self.task, self.task_id)
        result.digest, result.ignored = UUID(self.digest), self.is_ignored
        return result
