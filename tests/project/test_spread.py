"""Which tests a process takes next: those of the folder that it is in, and the heaviest first."""

from __future__ import annotations

from collections import Counter

from tests.support import spread
from tests.support.spread import next_part, part_of

DEATHS, POOLS, RESERVED = "tests/deaths/atomic", "tests/processes/pools", "tests/processes/reserved"
ALONE, OUTAGES = "tests/task", "tests/processes/outages"
WAITING = {
    f"{DEATHS}/test_one.py": 1,
    f"{DEATHS}/test_nine.py": 9,
    f"{RESERVED}/test_two.py": 2,
    f"{RESERVED}/test_three.py": 3,
    f"{ALONE}/test_many.py": 100,
}


def test_a_process_stays_in_a_folder_that_shares_and_takes_the_heaviest_file_there() -> None:
    assert next_part(WAITING, f"{RESERVED}/test_before.py", Counter()) == f"{RESERVED}/test_three.py"


def test_who_has_nothing_left_there_goes_where_most_work_is() -> None:
    for last in ("", f"{ALONE}/test_before.py", f"{OUTAGES}/test_before.py"):
        assert next_part(WAITING, last, Counter()) == f"{DEATHS}/test_nine.py"


def test_where_others_work_there_is_less_left_for_each() -> None:
    assert next_part(WAITING, "", Counter({DEATHS: 1})) == f"{RESERVED}/test_three.py"


def test_a_folder_of_long_building_is_one_part_and_a_very_long_file_is_one_for_each_class() -> None:
    assert part_of(f"{POOLS}/test_pools.py::test_it[solo]") == part_of(f"{POOLS}/test_gevent.py::test_it")
    assert part_of(f"{DEATHS}/test_one.py::test_it") == f"{DEATHS}/test_one.py"
    contract = "tests/ledger/stores/test_contract.py"
    assert part_of(f"{contract}::TestSQLite::test_it") != part_of(f"{contract}::TestPostgreSQL::test_it")


def test_each_folder_and_file_that_is_named_is_there() -> None:
    for path in (*spread.SHARING, *spread.WHOLE, *spread.BY_CLASS):
        assert (spread.ROOT / path).exists(), path
    assert spread.SHARING.keys() >= spread.WHOLE
