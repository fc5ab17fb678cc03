"""A chaos run's plan is its seed's alone, and its report says what was left out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.chaos.levels import Levels
from benchmarks.chaos.pace import Pace
from benchmarks.chaos.plan import OF_A_HOST, Kind, Setting, Strike, make_plan, strikes_of
from benchmarks.chaos.report import text_of
from benchmarks.chaos.run import Outcome
from benchmarks.chaos.servers import DATABASES
from benchmarks.chaos.verdict import Verdict

SETTING = Setting(calls=40, faults=90)
#: Seconds of a lease in a chaos run: its settings cannot be read here.
LEASE = 4


def test_a_seed_gives_the_same_calls_and_faults_again_and_another_one_others() -> None:
    assert make_plan(7, SETTING) == make_plan(7, SETTING)
    assert make_plan(7, SETTING).digest != make_plan(8, SETTING).digest


@pytest.mark.parametrize("database", DATABASES)
def test_every_kind_of_call_and_every_fault_that_is_possible_is_in_a_plan(database: str) -> None:
    setting = Setting(10_000, 220, database)
    plan = make_plan(1, setting)
    assert (len(plan.calls), len(plan.faults)) == (10_000, 220)
    assert {call.kind for call in plan.calls} == set(Kind)
    assert {fault.strike for fault in plan.faults} == set(strikes_of(setting))
    moments = [fault.at for fault in plan.faults]
    assert moments == sorted(moments)
    assert moments[0] > 0
    assert moments[-1] < 1


def test_only_what_has_a_server_can_lose_it() -> None:
    assert Strike.POOLER_KILLED not in strikes_of(Setting())
    assert Strike.POOLER_KILLED in strikes_of(Setting(database="pgbouncer"))
    assert Strike.DATABASE_FAILED_OVER not in strikes_of(Setting())
    assert Strike.DATABASE_FAILED_OVER in strikes_of(Setting(database="standby"))
    assert not any(strike.name.startswith("DATABASE") for strike in strikes_of(Setting(database="sqlite")))


def test_each_seed_cuts_hosts_off_for_longer_than_a_lease_and_some_for_good_but_not_those_of_sqlite() -> None:
    for seed in range(20):
        faults = make_plan(seed, Setting(10_000, 220)).faults
        assert {fault.strike for fault in faults} >= OF_A_HOST
        assert min(fault.seconds for fault in faults if fault.strike is Strike.HOST_CUT) > LEASE
    assert not OF_A_HOST & strikes_of(Setting(database="sqlite")).keys()


def test_the_report_and_its_last_line_say_which_kinds_of_faults_were_left_out_and_why() -> None:
    verdict = Verdict((), (), (), ())
    outcome = Outcome(make_plan(1, SETTING), verdict, [], [], 1.0, 0)
    assert text_of(outcome, Levels()).endswith("\nlost: 0, doubled: 0")
    outcome.left_out = {Strike.HOST_CUT: "nobody may", Strike.WORKER_CLOCK: "there is none"}
    text = text_of(outcome, Levels())
    assert text.endswith("\nlost: 0, doubled: 0; left out here: host cut off, worker clock set wrong")
    assert "\nleft out, since nobody may: host cut off\n" in text


def test_senders_wait_for_the_faults_of_a_small_run_but_for_a_tenth_of_the_calls(tmp_path: Path) -> None:
    plan, pace = make_plan(1, Setting(calls=400, faults=20)), Pace(tmp_path / "pace")
    sent = []
    for struck in (0, 10, 18):
        pace.struck(struck, plan)
        sent.append(max(call.number for call in plan.calls if pace.allows(call.number, plan)))
    assert sent == [40, 240, 399]


def test_a_run_without_faults_waits_for_nothing(tmp_path: Path) -> None:
    plan, pace = make_plan(1, Setting(calls=400, faults=0)), Pace(tmp_path / "pace")
    pace.struck(0, plan)
    assert all(pace.allows(call.number, plan) for call in plan.calls)
