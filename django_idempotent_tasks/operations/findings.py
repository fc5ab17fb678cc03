"""Names what needs a person in a status, one sentence each, and the command that shows more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..beat.overview import LOOKED_AT, Named, Overview
from ..identity.text import harmless
from ..ledger.moments import exact
from ..states import PRUNED, State
from .counts import Count, total
from .obstacles import unknown_to_workers
from .status import Status
from .text import listed, since, span
from .waiting import Unserved
from .workers import leader_words

#: Keys past their time that the sweeper deletes within seconds where it keeps up.
PRUNE_BEHIND = 1000
#: Seconds without the end of a sweep, which comes every few seconds, after which a leader counts as idle.
IDLE = 300


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
    found = [*_sweeper(seen), *_waiting(seen), *_overdue(seen), *_dead(seen), *_batches(seen), *_behind(seen)]
    found += _refused(seen)
    return [each for each in [*found, *beat_findings(seen.beat)] if each.count.number]


def no_sweeper() -> str:
    """The remedy where no process leads the sweeper."""
    return _("Nobody leads the sweeper: start a worker with SWEEPER = 'thread', or 'manage.py idem sweep'.")


def _sweeper(seen: Status) -> Iterator[Finding]:
    yield Finding("no_leader", Count(int(not seen.is_led)), no_sweeper())
    yield from _sweeps_nothing(seen)
    count = seen.count(State.RUNNING, "stuck")
    words = ngettext(
        "%(count)s lease ended over a minute ago: no message is stored to send again, or no sweeper runs.",
        "%(count)s leases ended over a minute ago: no messages are stored to send again, or no sweeper runs.",
        count.number,
    )
    yield _counted("expired_leases", count, words, "See 'idem keys list --state running'.")


def _sweeps_nothing(seen: Status) -> Iterator[Finding]:
    """A sweeper that leads, and so keeps all others from sweeping, while its own sweeps fail or hang."""
    if seen.leader is None or not seen.is_led:
        return
    led = (exact(seen.now) - exact(seen.leader.since)).total_seconds()
    if led < IDLE or (seen.swept is not None and seen.swept < IDLE):
        return
    ended = _("has never ended a sweep") if seen.swept is None else _("ended its last sweep %(span)s ago")
    words = _("%(who)s leads the sweeper for %(led)s and %(ended)s: its log says why. Restart it.")
    facts = {"who": leader_words(seen.leader.holder), "led": span(led)}
    facts["ended"] = ended % {"span": span(seen.swept or 0)}
    yield Finding("sweeper_idle", Count(1), words % facts, "See 'idem health sweeper'.")


def _waiting(seen: Status) -> Iterator[Finding]:
    """What no living worker will take, named as soon as it has waited for a minute."""
    words = ngettext(
        "No worker lives, and %(count)s key waits for one: start workers.",
        "No worker lives, and %(count)s keys wait for one: start workers.",
        seen.waiting.nobody.number,
    )
    yield _counted("no_worker", seen.waiting.nobody, words, "See 'idem workers'.")
    for each in seen.waiting.queues:
        facts = {"queue": harmless(each.name), "tasks": listed(each.tasks)}
        words = _(
            "No living worker consumes the queue %(queue)s, where calls of %(tasks)s wait for %(span)s: start"
            " a worker with -Q %(queue)s."
        )
        words %= facts | {"span": since(each.since, seen.now)}
        yield Finding("queue_not_consumed", each.count, words, "See 'idem workers'.")
    for each in seen.waiting.tasks:
        words = f"{unknown_to_workers(each.name)} {_waits(each, seen)}"
        yield Finding("task_not_known", each.count, words, "See 'idem workers'.")


def _waits(each: Unserved, seen: Status) -> str:
    words = ngettext(
        "%(count)s call waits for %(span)s.",
        "%(count)s calls wait, the first for %(span)s.",
        each.count.number,
    )
    return words % {"count": each.count, "span": since(each.since, seen.now)}


def _refused(seen: Status) -> Iterator[Finding]:
    words = ngettext(
        "%(count)s message of the last day named the key of another task or scope and was refused: who else"
        " can write to the broker?",
        "%(count)s messages of the last day named the key of another task or scope and were refused: who else"
        " can write to the broker?",
        seen.mismatches.number,
    )
    yield _counted("identity_refused", seen.mismatches, words)


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
        "%(count)s dead letter is in review: find out whether its effects happened, then decide.",
        "%(count)s dead letters are in review: find out whether their effects happened, then decide.",
        count.number,
    )
    yield _counted("review", count, words, "See 'idem dead-letters list --state review'.")


def _batches(seen: Status) -> Iterator[Finding]:
    count = seen.batches
    words = ngettext(
        "%(count)s batch needs attention: redrive or discard its dead letters.",
        "%(count)s batches need attention: redrive or discard their dead letters.",
        count.number,
    )
    yield _counted("batches_attention", count, words, "See 'idem batches list --state needs_attention'.")
    count = seen.unsealed
    words = ngettext(
        "%(count)s batch was never submitted in full, and nothing was added for an hour: submit it again, or"
        " cancel it.",
        "%(count)s batches were never submitted in full, and nothing was added for an hour: submit them"
        " again, or cancel them.",
        count.number,
    )
    yield _counted("batches_unsealed", count, words, "See 'idem batches list --state submitting'.")


def _behind(seen: Status) -> Iterator[Finding]:
    """Keys that are past their retention. A few always are: the sweeper deletes them every few seconds."""
    past = total(*(seen.count(state, "past") for state in PRUNED))
    if past.number >= PRUNE_BEHIND:
        words = _(
            "%(count)s keys should have been deleted over a minute ago: the sweeper is behind. 'manage.py"
            " idem prune --yes --pause 0' helps; does the database keep up?"
        )
        yield _counted("prune_behind", past, words)


def beat_findings(seen: Overview | None) -> Iterator[Finding]:
    """What needs a person about beat; nothing where no beat of this package has ever led."""
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
        "Beat cannot read %(count)s periodic task and does not send it; it goes on with the others.",
        "Beat cannot read %(count)s periodic tasks and does not send them; it goes on with the others.",
        count.number,
    )
    yield _counted("beat_unreadable", count, words, "'idem health beat' names them, with the remedy.")
    count = _count(seen.strangers)
    words = ngettext(
        "An ordinary beat also sent %(count)s periodic task in the last day, so the task ran twice: stop"
        " every 'celery beat' that runs without the scheduler of this package.",
        "An ordinary beat also sent %(count)s periodic tasks in the last day, so the tasks ran twice: stop"
        " every 'celery beat' that runs without the scheduler of this package.",
        count.number,
    )
    yield _counted("beat_stranger", count, words)


def _counted(name: str, count: Count, words: str, command: str = "") -> Finding:
    return Finding(name, count, words % {"count": count}, command)


def _count(found: list[Named]) -> Count:
    return Count(len(found), len(found) >= LOOKED_AT)
