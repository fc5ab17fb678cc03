"""Promises about pauses: what waits for one is passed over by sweeps, and comes back once it is over."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from ...ledger.moments import database_now
from ...ledger.paused import Paused
from ...ledger.stores.clock import shifted
from ...ledger.values import Call
from ...models import Pause
from ...states import State
from .bench import REPUBLISH
from .sweeping import Sweeping

TASK = "shop.charge"
#: Seconds that a pause of these promises lasts, and after which its calls are due even without a sweeper.
LASTS, HELD = 600, 9000


class Pauses(Sweeping):
    """A pause, the rows that wait for it, and its end."""

    def test_only_a_pause_in_force_is_active_and_only_one_that_is_over_has_ended(self) -> None:
        self._paused()
        self._paused(scope="tenant-42")
        assert [(each.task, each.scope, each.rate) for each in self._active()] == [
            (TASK, "", 5),
            (TASK, "tenant-42", 5),
        ]
        assert self.store().ended_pauses() == []
        self._resume(self._active()[0])
        assert [each.scope for each in self._active()] == ["tenant-42"]
        assert [each.scope for each in self.store().ended_pauses()] == [""]
        with shifted(LASTS + 5):
            assert self._active() == []
            first, second = self.store().ended_pauses()
            assert (first.scope, second.scope) == ("", "tenant-42")
            assert 4 < second.ended_for < 60 < first.ended_for

    def test_what_waits_for_a_pause_is_in_no_sweep_before_it_is_made_due_again(self) -> None:
        pause, held, other = self._paused(), self.reserved(wait=0), self.reserved(wait=0)
        assert self._park(held, pause) is True
        assert self.row(held).sends == -1
        assert self.sweep().keys() == {other.identity.digest}
        with shifted(LASTS + 5):
            assert held.identity.digest not in self.sweep()
            assert self.store().count_held(pause, bite=9) == 1
            assert self.store().unpark(pause, bite=9) == 1
            assert self.store().unpark(pause, bite=9) == 0
            assert held.identity.digest in self.sweep()

    def test_what_waits_is_due_by_itself_in_the_end(self) -> None:
        pause, held = self._paused(), self.reserved(wait=0)
        assert self._park(held, pause) is True
        with shifted(HELD + 5):
            assert held.identity.digest in self.sweep()

    def test_nothing_waits_for_a_pause_that_is_over(self) -> None:
        pause, gone, call = self._paused(), self._paused(scope="b"), self.reserved()
        self._resume(pause)
        Pause.objects.using(self.alias).filter(pk=gone.id).delete()
        for over in (pause, gone):
            with self.untouched(call):
                assert self._park(call, over) is False
        late = self._paused()
        with shifted(LASTS + 5), self.untouched(call):
            assert self._park(call, late) is False

    def test_only_a_call_that_waits_to_be_run_and_has_a_message_waits_for_a_pause(self) -> None:
        pause, running = self._paused(), self.claimed()
        silent = self.reserved(self.call(message=None))
        ended = self.completed()
        for key in (running, ended):
            with self.untouched(key):
                assert self.store().park(key.digest, token=key.token, pause=pause.id) is False
        with self.untouched(silent):
            assert self._park(silent, pause) is False
        waiting = self.claimed()
        assert self.retry(waiting, wait=30)
        assert self.store().park(waiting.digest, token=waiting.token, pause=pause.id) is True
        assert self.seen(waiting.call).state is State.RETRY

    def test_a_row_that_has_moved_on_does_not_wait(self) -> None:
        pause, call = self._paused(), self.reserved()
        with self.untouched(call):
            assert self.store().park(call.identity.digest, token=7, pause=pause.id) is False

    def test_a_pause_gives_back_its_own_calls_a_bite_at_a_time_and_no_other(self) -> None:
        pause, other = self._paused(), self._paused(scope="b")
        calls = [self.reserved() for _ in range(3)]
        strange = self.reserved()
        assert [self._park(call, pause) for call in calls] == [True] * 3
        assert self._park(strange, other) is True
        self._resume(pause)
        with self.untouched(strange):
            assert [self.store().unpark(pause, bite=2) for _ in range(3)] == [2, 1, 0]
        assert self.store().count_held(other, bite=9) == 1

    def test_what_is_given_back_comes_at_its_own_time_and_not_before(self) -> None:
        pause, retry, now = self._paused(), self.claimed(), self.reserved(wait=0)
        assert self.retry(retry, wait=300)
        assert self.store().park(retry.digest, token=retry.token, pause=pause.id) is True
        assert self._park(now, pause) is True
        assert self.store().unpark(pause, bite=9) == 2
        assert self.row(retry).due_at == self.row(retry).open_at
        assert self.sweep().keys() == {now.identity.digest}

    def test_a_pause_is_drained_once_and_is_then_neither_active_nor_ended(self) -> None:
        pause = self._paused()
        self._resume(pause)
        assert [self.store().drained(pause) for _ in range(2)] == [True, False]
        assert (self._active(), self.store().ended_pauses()) == ([], [])

    def test_a_drained_pause_is_pruned_after_its_time_and_no_other(self) -> None:
        old, live = self._paused(), self._paused(scope="b")
        self._resume(old)
        assert self.store().prune_pauses(keep=REPUBLISH, bite=9) == 0
        self.store().drained(old)
        assert self.store().prune_pauses(keep=REPUBLISH, bite=9) == 0
        with shifted(REPUBLISH + 5):
            assert self.store().prune_pauses(keep=REPUBLISH, bite=9) == 1
        assert list(Pause.objects.using(self.alias).values_list("id", flat=True)) == [live.id]

    def _paused(self, *, scope: str = "") -> Paused:
        """A pause that begins now."""
        now = database_now(self.store())
        lasts = now + timedelta(seconds=LASTS)
        held = now + timedelta(seconds=HELD, microseconds=random.randrange(1_000_000))  # a time of its own
        named: dict[str, Any] = {"task": TASK, "scope": scope, "since": now, "until": lasts, "held_at": held}
        row = Pause(reason="outage", paused_by="ann", rate=5, **named)
        row.save(using=self.alias, force_insert=True)
        return Paused(row.pk, TASK, scope, 5)

    def _resume(self, pause: Paused) -> None:
        """End a pause by hand."""
        Pause.objects.using(self.alias).filter(pk=pause.id).update(resumed_at=database_now(self.store()))

    def _park(self, call: Call, pause: Paused) -> bool:
        return self.store().park(call.identity.digest, token=self.seen(call).token, pause=pause.id)

    def _active(self) -> list[Paused]:
        return self.store().active_pauses()
