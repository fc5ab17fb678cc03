"""The tutorial, from its first line to its last, with its worker and its ``kill -9``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.walk import walking


@pytest.mark.process
@pytest.mark.slow
def test_the_tutorial_is_as_it_says(tmp_path: Path) -> None:
    with walking(tmp_path, Path(sys.executable).parent) as walk:
        walk.go()
    assert [len(walk.logs), "attempt 2" in walk.logs[-1].read_text()] == [2, True]
