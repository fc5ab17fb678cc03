"""The benchmarks' arithmetic and tables; nothing is timed here."""

from __future__ import annotations

import json

import pytest

from benchmarks import cpu, memory
from benchmarks.figures import alternating, compare, known_median, per_task, spread
from benchmarks.identity import SIZES, arguments_of
from benchmarks.table import figure, goal, render
from benchmarks.variants import BY_LABEL, VARIANTS


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
