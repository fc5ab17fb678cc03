"""Carries out what a person decides about dead letters (redrive, discard, resolve), and logs who and why."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from .. import signals
from ..conf import settings
from ..conf.options import Policy
from ..exceptions import ConfigurationError
from ..identity.text import harmless
from ..ledger.encoding import encode_result, given_json
from ..ledger.moments import database_now
from ..ledger.rows import follow_up_of
from ..ledger.stores import LedgerStore
from ..messages.message import AGAIN, HEADER, Message
from ..messages.turns import REDRIVEN
from ..models import IdempotencyKey
from ..signals import announce
from ..states import Reason, State
from .batch_following import follow_soon
from .selection import Selection
from .tasks import known_task

logger = logging.getLogger("django_idempotent_tasks")

Arguments = tuple[list[Any], dict[str, Any]]

#: Dead letters that one transaction discards.
BITE = 200

#: Options of a message that come from the attempts that failed.
_SPENT = ("retries", "expires")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an operator's verb was carried out; ``problem`` says why not and what to do instead."""

    done: bool
    problem: str = ""


DONE = Decision(done=True)


def redrive(
    store: LedgerStore,
    row: IdempotencyKey,
    *,
    by: str,
    reason: str = "",
    edited: Arguments | None = None,
) -> Decision:
    """Move a key from FAILED or REVIEW, as ``row`` was read, to PENDING; the sweeper sends its call.

    Key, call and downstream keys stay the same; attempts, crashes and retries are counted from 0.
    ``edited``: other arguments for the call, under the same key.
    """
    try:
        text = redrive_message(row, edited)
    except ValueError as error:
        return _refused(str(error).removesuffix("."))
    if text is None:
        return _refused(why_unsendable(row))
    if follow_up_of(row) is not None:
        return _refused(
            _("a later call of its key waits and is run in its place: look again in a few seconds")
        )
    if not store.redrive(row.digest, token=row.token, message=text):
        return moved_on(store, row)
    announce_redriven(row, by=by, using=store.connection.alias)
    follow_soon(store, row.digest)
    _log(row, "redrove", by, reason, how="" if edited is None else ", with other arguments")
    return DONE


def announce_redriven(row: IdempotencyKey, *, by: str, using: str | None) -> None:
    """Announce that a dead letter was redriven."""
    named = {"digest": row.digest, "token": row.token + 1, "task_id": row.task_id, "by": by}
    announce(signals.redriven, sender=row.task, using=using, **named)


def why_unsendable(row: IdempotencyKey) -> str:
    """Why a dead letter without a readable message cannot be redriven."""
    if row.message is None:
        return _(
            "the call's message is not stored (a sensitive task, or arguments above MAX_PAYLOAD): send the"
            " call again where it came from, or resolve or discard this dead letter"
        )
    return _(
        "its stored message cannot be read, or is above MAX_PAYLOAD: send the call again where it came from"
    )


def discard(store: LedgerStore, row: IdempotencyKey, *, by: str, reason: str = "") -> Decision:
    """Take a dead letter off the lists: its row is kept until it is pruned; a later call may have its key."""
    if not _discarded(store, row):
        return moved_on(store, row)
    follow_soon(store, row.digest)
    _log(row, "discarded", by, reason)
    return DONE


def discard_all(
    store: LedgerStore, selection: Selection, *, by: str, reason: str, tell_so_far: Callable[[int], object]
) -> tuple[int, int]:
    """Discard the dead letters that match and have ended by now, ``BITE`` in a transaction.

    Returns how many were discarded, and how many had moved on meanwhile.
    """
    done = moved = 0
    for page in _until_now(store, selection).pages(store.connection.alias, size=BITE):
        with store.together():
            number = sum(_discarded(store, row) for row in page)
        done, moved = done + number, moved + len(page) - number
        tell_so_far(done)
    if done:
        which = harmless(selection.words())
        logger.warning("%s discarded %d dead letters (%s): %s", harmless(by), done, which, harmless(reason))
    return done, moved


def _until_now(store: LedgerStore, selection: Selection) -> Selection:
    now, before = database_now(store), selection.ended_before
    return replace(selection, ended_before=now if before is None else min(before, now))


def _discarded(store: LedgerStore, row: IdempotencyKey) -> bool:
    return store.discard(row.digest, token=row.token, retention=settings().dead_letter_retention)


def resolve(
    store: LedgerStore, row: IdempotencyKey, result: object, *, by: str, reason: str = ""
) -> Decision:
    """End a dead letter as SUCCEEDED: its work is done, and duplicates get ``result`` (JSON).

    Raises ValueError for a result that cannot be stored.
    """
    text, is_stored = encode_result(result, limit=settings().max_result)
    if not is_stored:
        msg = f"The result must be JSON of at most {settings().max_result} characters."
        raise ValueError(msg)
    given_json(text or "null")
    done = store.resolve(
        row.digest,
        token=row.token,
        result=text,
        reason=Reason.DONE,
        retention=_retention(row.task),
        window=settings().redelivery_window,
    )
    if not done:
        return moved_on(store, row)
    follow_soon(store, row.digest)
    _log(row, "resolved", by, reason, how=" as done")
    return DONE


def redrive_message(row: IdempotencyKey, edited: Arguments | None = None) -> str | None:
    """The stored message as a first attempt sends it, perhaps with other arguments; None: unreadable.

    Raises ValueError for arguments that cannot be stored, or be read again.
    """
    try:
        message = Message.decode(row.task, row.message or "")
    except ValueError:
        return None
    options = {name: value for name, value in message.options.items() if name not in _SPENT}
    headers = options.get("headers")
    if isinstance(headers, dict) and isinstance(headers.get(HEADER), dict):
        header = {name: value for name, value in headers[HEADER].items() if name != AGAIN}
        header[REDRIVEN] = (
            row.token + 1
        )  # a later turn than every copy has, and than a revoke that workers remember
        options["headers"] = {**headers, HEADER: header}
    message = replace(message, options=options)
    if edited is None:
        return message.encode(limit=settings().max_payload)
    try:
        text = replace(message, args=edited[0], kwargs=edited[1]).text_or_raise()
    except ConfigurationError as error:
        raise ValueError(str(error)) from error
    given_json(text)
    return text


def known_problem(row: IdempotencyKey) -> str | None:
    """Why a redrive is likely to fail again; None where this process knows no reason."""
    task = known_task(row.task)
    if task is None:
        return _("no task of this name is known here; it may have been renamed or removed")
    policy: Policy | None = getattr(task, "idempotency_policy", None)
    if policy is None or row.message is None:
        return None
    try:
        message = Message.decode(row.task, row.message)
        policy.key_rules.binder(message.args, message.kwargs)
    except Exception as error:  # noqa: BLE001  of any version, with any arguments
        return _("its arguments do not fit the task as it is now (%(error)s)") % {"error": error}
    return None


def _retention(task: str) -> int:
    policy = getattr(known_task(task), "idempotency_policy", None)
    return settings().retention if policy is None else int(policy.retention)


def _log(row: IdempotencyKey, verb: str, by: str, reason: str, *, how: str = "") -> None:
    why = harmless(reason or "no reason given")
    logger.warning("%s %s %s %s%s: %s", harmless(by), verb, harmless(row.task), row.digest, how, why)


def _refused(problem: str) -> Decision:
    return Decision(done=False, problem=problem)


def moved_on(store: LedgerStore, row: IdempotencyKey) -> Decision:
    """The refusal where another call or person has changed the key since ``row`` was read: it says who."""
    now = IdempotencyKey.objects.using(store.connection.alias).filter(digest=row.digest).first()
    if now is None:
        return _refused(_("its key is gone: the sweeper pruned it meanwhile"))
    state = State(now.state).name
    if now.discarded_at is not None:
        return _refused(_("it was discarded meanwhile"))
    words = _("its key has moved on and is %(state)s now (call %(holder)s): look again")
    return _refused(words % {"state": state, "holder": now.runner_task_id or now.task_id})
