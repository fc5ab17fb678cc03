"""Judges a status: what needs a person, in one sentence each, and where a command shows more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..beat.overview import LOOKED_AT, Named, Overview
from ..states import PRUNED, State
from .counts import Count, total
from .status import Status

#: Keys past their time that the sweeper deletes within seconds where it keeps up.
PRUNE_BEHIND = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that needs a person.

    ``sentence`` says what, for a page whose list is a link; ``command`` says where a terminal shows it.
    """

    name: str
    count: Count
    sentence: str
    command: str = ""

    @property
    def text(self) -> str:
        """Both, for a terminal."""
        return f"{self.sentence} {self.command}".rstrip()


def findings(seen: Status) -> list[Finding]:
    """What needs a person, worst first."""
    found = [*_sweeper(seen), *_overdue(seen), *_dead(seen), *_behind(seen), *beat_findings(seen.beat)]
    return [each for each in found if each.count.number]


def no_sweeper() -> str:
    """The remedy where no process leads the sweeper."""
    return _("Nobody leads the sweeper: start a worker with SWEEPER = 'thread', or 'manage.py idem sweep'.")


def _sweeper(seen: Status) -> Iterator[Finding]:
    yield Finding("no_leader", Count(int(not seen.is_led)), no_sweeper())
    count = seen.count(State.RUNNING, "stuck")
    words = ngettext(
        "%(count)s lease is over for more than a minute: nothing is stored to send again, or nobody sweeps.",
        "%(count)s leases are over for more than a minute: nothing is stored to send again, or nobody"
        " sweeps.",
        count.number,
    )
    yield _counted("expired_leases", count, words, "See 'idem keys list --state running'.")


def _overdue(seen: Status) -> Iterator[Finding]:
    count = total(seen.count(State.PENDING, "stuck"), seen.unsent)
    words = ngettext(
        "%(count)s pending key is overdue: does a worker consume its queue, does the broker take messages?",
        "%(count)s pending keys are overdue: does a worker consume their queue, does the broker take"
        " messages?",
        count.number,
    )
    yield _counted("pending_overdue", count, words, "See 'idem keys list --state pending'.")
    count = seen.count(State.RETRY, "stuck")
    words = ngettext(
        "%(count)s retry is overdue: does a worker consume its queue, does the broker take messages?",
        "%(count)s retries are overdue: does a worker consume their queue, does the broker take messages?",
        count.number,
    )
    yield _counted("retry_overdue", count, words, "See 'idem keys list --state retry'.")


def _dead(seen: Status) -> Iterator[Finding]:
    count = seen.count(State.FAILED, "kept")
    words = ngettext(
        "%(count)s dead letter failed for good: redrive or discard it.",
        "%(count)s dead letters failed for good: redrive or discard them.",
        count.number,
    )
    yield _counted("failed", count, words, "See 'idem dead-letters list --state failed'.")
    count = seen.count(State.REVIEW, "kept")
    words = ngettext(
        "%(count)s dead letter is in review: a person must say what became of it.",
        "%(count)s dead letters are in review: a person must say what became of them.",
        count.number,
    )
    yield _counted("review", count, words, "See 'idem dead-letters list --state review'.")


def _behind(seen: Status) -> Iterator[Finding]:
    """Keys that should be deleted. Some always are: the sweeper deletes them every few seconds."""
    past = total(*(seen.count(state, "past") for state in PRUNED))
    if past.number >= PRUNE_BEHIND:
        words = _(
            "%(count)s keys are past their time for over a minute: the sweeper is behind with deleting them."
        )
        remedy = _("'idem prune --yes --pause 0' helps; does the database keep up?")
        yield _counted("prune_behind", past, words, remedy)


def beat_findings(seen: Overview | None) -> Iterator[Finding]:
    """What needs a person; nothing where no beat of ours has ever led."""
    if seen is None or seen.leader is None:
        return
    words = _("Nobody leads beat while periodic tasks are enabled: start one, 'manage.py idem beat'.")
    yield Finding("beat_no_leader", Count(int(seen.has_entries and not seen.is_led)), words)
    count = _count(seen.overdue)
    words = ngettext(
        "%(count)s periodic task is overdue for more than a minute: does beat run, and what does it log?",
        "%(count)s periodic tasks are overdue for more than a minute: does beat run, and what does it log?",
        count.number,
    )
    yield _counted("beat_overdue", count, words, "See 'idem health beat'.")
    count = _count(seen.unreadable)
    words = ngettext(
        "%(count)s periodic task cannot be read, so that beat sends nothing of it; the others go on.",
        "%(count)s periodic tasks cannot be read, so that beat sends nothing of them; the others go on.",
        count.number,
    )
    yield _counted(
        "beat_unreadable", count, words, "'idem health beat' names them, what is wrong and the remedy."
    )
    count = _count(seen.strangers)
    words = ngettext(
        "%(count)s periodic task was also sent by an ordinary beat within a day, so that it ran twice:"
        " stop every 'celery beat' that runs without our scheduler.",
        "%(count)s periodic tasks were also sent by an ordinary beat within a day, so that they ran twice:"
        " stop every 'celery beat' that runs without our scheduler.",
        count.number,
    )
    yield _counted("beat_stranger", count, words)


def _counted(name: str, count: Count, words: str, command: str = "") -> Finding:
    return Finding(name, count, words % {"count": count}, command)


def _count(found: list[Named]) -> Count:
    return Count(len(found), len(found) >= LOOKED_AT)
