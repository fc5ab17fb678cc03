"""The benchmarks' arithmetic and tables; nothing is timed here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.claims.tables import TABLE, Filled
from benchmarks.figures import goals
from benchmarks.figures.arithmetic import alternating, compare, doubt, known_median, per_task, spread
from benchmarks.figures.plot import Bar, draw
from benchmarks.figures.table import figure, goal, render
from benchmarks.handler.identity import SIZES, arguments_of
from benchmarks.machine import cpu, memory
from benchmarks.machine.disk import slow_disk
from benchmarks.profiling.stopwatch import Stopwatch
from benchmarks.throughput.variants import ABSENT, ALL, BY_LABEL, SEEDS, VARIANTS, Kind, Variant, chosen
from benchmarks.throughput.worker import PEERS_KEPT


def test_a_slow_round_changes_the_medians_less_than_a_mean_and_the_ratio_by_round_not_at_all() -> None:
    compared = compare([90.0, 9.0, 81.0], [100.0, 10.0, 90.0])
    assert compared.of_medians == pytest.approx(0.9)
    assert compared.of_rounds == pytest.approx(0.9)
    assert [compared.lowest, compared.highest] == pytest.approx([0.9, 0.9])


def test_the_two_ratios_are_taken_apart() -> None:
    compared = compare([10.0, 20.0, 60.0], [10.0, 40.0, 50.0])
    assert compared.of_medians == pytest.approx(20 / 40)
    assert compared.of_rounds == pytest.approx(1.0)
    assert [compared.lowest, compared.highest] == pytest.approx([0.5, 1.2])


def test_rounds_that_do_not_belong_together_are_not_compared() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        compare([1.0], [1.0, 2.0])


def test_the_spread_is_half_the_range_over_the_median() -> None:
    assert spread([80.0, 100.0, 130.0]) == pytest.approx(0.25)
    assert spread([5.0]) == 0


def test_a_few_disturbed_rounds_leave_no_doubt_about_a_median() -> None:
    calm = [0.98, 0.99, 1.0, 1.0, 1.0, 1.0, 1.01, 1.02]
    assert doubt([*calm, 3.0]) == pytest.approx(0.015)
    assert doubt([0.9, 1.1]) == pytest.approx(0.1)


def test_the_chosen_variants_are_measured_beside_the_plain_task() -> None:
    assert chosen([]) == list(BY_LABEL)
    assert chosen(["return", "atomic"]) == ["plain", "atomic", "return"]
    with pytest.raises(ValueError, match="no variant: sideways; there are plain, atomic"):
        chosen(["sideways"])


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_slow_disk_delays_each_flush(tmp_path: Path) -> None:
    library = slow_disk(20)
    program = (
        "import os, sys, time\n"
        "with open(sys.argv[1], 'w') as file:\n"
        "    for flush in (os.fsync, os.fdatasync):\n"
        "        began = time.monotonic()\n"
        "        flush(file.fileno())\n"
        "        assert time.monotonic() - began >= 0.02\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "file")]
    try:
        subprocess.run(command, env={"LD_PRELOAD": str(library)}, check=True)
    finally:
        shutil.rmtree(library.parent)


def test_a_median_leaves_out_what_is_not_known() -> None:
    assert known_median([3.0, None, 1.0, 8.0]) == 3.0
    assert known_median([None]) is None


def test_rounds_go_there_and_back() -> None:
    assert alternating(["a", "b", "c"], 3) == [["a", "b", "c"], ["c", "b", "a"], ["a", "b", "c"]]


def test_what_a_task_took_is_the_difference_shared_out() -> None:
    assert per_task(1000, 21_000, 100) == 200


def test_a_table_has_its_text_to_the_left_and_its_figures_to_the_right() -> None:
    table = render(("name", "us"), [("a", "1"), ("longer", "1,000")])
    assert table.splitlines() == ["name       us", "------  -----", "a           1", "longer  1,000"]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(1234.5, 0, "1,234"), (0.854, 2, "0.85"), (None, 2, "-"), (0, 1, "0.0")],
)
def test_figures_are_written_for_people(value: float | None, digits: int, text: str) -> None:
    assert figure(value, digits) == text


def test_a_goal_is_written_with_its_direction_and_none_is_left_out() -> None:
    assert goal(0.85, ">=") == ">= 0.85"
    assert goal(1000, "<=", 0) == "<= 1,000"
    assert goal(None, ">=") == ""


def test_every_variant_is_compared_with_one_that_is_measured() -> None:
    assert len(BY_LABEL) == len(VARIANTS)
    assert {against.base for variant in VARIANTS for against in variant.against} <= set(BY_LABEL)


def test_every_duplicate_meets_keys_that_were_completed_in_the_warm_up() -> None:
    seeds = {BY_LABEL[label].seed for label in SEEDS}
    assert {variant.seed for variant in VARIANTS if variant.kind.seeded} == seeds


def test_a_variant_whose_package_is_missing_is_left_out() -> None:
    absent = Variant("absent", "absent", Kind.PLAIN, PEERS_KEPT, "task", package="no-such-package")
    assert not absent.installed
    assert {variant.package for variant in ALL if variant.label not in BY_LABEL} == set(ABSENT)


@pytest.mark.parametrize(
    ("value", "aim", "high", "low"),
    [(0.92, 0.92, "met", "met"), (0.91, 0.92, "not met", "met"), (1.0, None, "", ""), (None, 0.92, "", "")],
)
def test_a_verdict_needs_a_figure_and_a_goal(
    value: float | None, aim: float | None, high: str, low: str
) -> None:
    assert goals.at_least(value, aim) == high
    assert goals.at_most(value, aim) == low


def test_counts_are_judged_beside_a_plain_call_or_in_all() -> None:
    more, whole = goals.CountGoal(1, 0), goals.CountGoal(3, 1, in_all=True)
    assert [str(more), str(whole)] == ["+1, +0", "3, 1"]
    assert more.verdict((2.0, 1.0), (1.0, 1.0)) == "met"
    assert more.verdict((2.0, 2.0), (1.0, 1.0)) == "not met"
    assert whole.verdict((4.0, 1.0), (1.0, 1.0)) == "not met"
    assert whole.verdict((None, 1.0), (None, 1.0)) == "met"


def test_a_picture_is_xml_with_a_bar_a_spread_and_a_goal_for_each_figure() -> None:
    bars = [Bar("a < b", 0.9, 0.8, 1.0, goal=0.92), Bar("c", 2.6, 2.0, 3.2)]
    root = ET.fromstring(draw("title", ["note"], bars))  # noqa: S314  written here
    space = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.get("width", "")) for bar in root.findall(f"{space}rect")]
    assert widths[1] / widths[0] == pytest.approx(2.6 / 0.9, rel=0.01)
    texts = {text.text for text in root.findall(f"{space}text")}
    assert {"title", "note", "a < b", "c", "0.90", "2.60", "3.5"} <= texts
    grid = 8  # from 0 to 3.5
    assert len(root.findall(f"{space}line")) == grid + len(bars) + 1


def test_a_filled_table_says_how_large_it_and_its_indexes_are() -> None:
    filled = Filled(10_000_000, 95.04, {TABLE: 2430.4, "idem_key_task_id": 560.0, f"{TABLE}_pkey": 301.4})
    assert filled.text == (
        "10,000,000 keys filled in 95.0 s: table 2,430 MB, indexes 861 MB (idem_key_task_id 560, pkey 301)"
    )


class Clock:
    """Moves by one at each look."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


def test_time_belongs_to_the_innermost_step() -> None:
    stopwatch = Stopwatch(clock := Clock())

    def statement() -> None:
        clock.now += 10

    execute = stopwatch.timed(statement, ", statement")

    def claims() -> str:
        execute()
        clock.now += 100
        return "claimed"

    assert stopwatch.timed(claims, "claim")() == "claimed"
    assert stopwatch.take() == {"claim": 102, "claim, statement": 11}
    assert stopwatch.take() == {}


def test_a_step_that_fails_is_closed_and_so_is_a_generator() -> None:
    stopwatch = Stopwatch(Clock())

    def sends() -> Generator[int, int, str]:
        if (yield 1) < 0:
            raise ValueError("refused")
        return "done"

    step = stopwatch.timed_generator(sends, "BEGIN")

    def driven() -> Generator[int, int, None]:
        assert (yield from step()) == "done"

    running = stopwatch.timed_generator(driven, "outer")()
    assert next(running) == 1
    with pytest.raises(StopIteration):
        running.send(1)
    failing = step()
    next(failing)
    with pytest.raises(ValueError, match="refused"):
        failing.send(-1)
    stopwatch.timed(lambda: None, ", alone")()
    assert set(stopwatch.take()) == {"outer", "BEGIN", ", alone"}


def test_the_arguments_of_the_identities_have_the_sizes_that_they_are_called_by() -> None:
    small, middle, large = (len(json.dumps(arguments_of(size.records))) for size in SIZES)
    assert small < 100
    assert middle == pytest.approx(8192, rel=0.02)
    assert large == pytest.approx(940_000, rel=0.02)


def test_memory_is_read_in_megabytes() -> None:
    lines = [
        "5581c2a00000-7ffd1b9ff000 ---p 00:00 0 [rollup]",
        "Rss:  2048 kB",
        "Pss:  1536 kB",
        "Pss_Dirty: 1 kB",
    ]
    assert memory.parse("\n".join(lines)) == memory.Memory(rss=2.0, pss=1.5)


def test_processor_time_is_found_behind_any_command_name() -> None:
    before = "7 (a) S 1 (b)) S " + " ".join(["0"] * 10)
    text = f"{before} {cpu.TICKS_PER_SECOND} {cpu.TICKS_PER_SECOND} 0 {3 * cpu.TICKS_PER_SECOND} 20 0"
    assert cpu.parse(text, ended_too=False) == 2.0
    assert cpu.parse(text, ended_too=True) == 5.0
