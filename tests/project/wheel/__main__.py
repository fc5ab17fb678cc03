"""``make dist`` and, with the word ``release``, ``make release-check``.

The first builds sdist and wheel and follows the tutorial with the wheel. The second also asks twine, follows
the tutorial on each supported Python that is found, and leaves a bill of materials and a list of licences.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.project.matrix import COMBINATIONS, find_python
from tests.project.wheel.environments import TARGET, built, follow_the_tutorial
from tests.project.wheel.papers import check_descriptions, write_papers


def main(words: list[str]) -> None:
    """Ends with 1, and says why, at the first thing that is not as it should be."""
    wheel, sdist = built()
    with tempfile.TemporaryDirectory(prefix="dist-") as directory:
        home = Path(directory)
        if words == ["release"]:
            _check_release(wheel, sdist, home)
        else:
            _follow(Path(sys.executable), "this Python", wheel, home)
    print(f"Fine: {', '.join(sorted(path.name for path in TARGET.iterdir()))} in {TARGET}")


def _check_release(wheel: Path, sdist: Path, home: Path) -> None:
    check_descriptions(home / "tools", wheel, sdist)
    write_papers(home / "tools", wheel, home / "inside")
    for version in sorted({version for version, *_rest in COMBINATIONS}):
        python = find_python(version)
        if python is None:
            print(f"Python {version} not found: the tutorial is not followed on it", flush=True)
        else:
            place = home / version
            place.mkdir()
            _follow(python, f"Python {version}", wheel, place)


def _follow(python: Path, name: str, wheel: Path, home: Path) -> None:
    print(f"Following docs/tutorial.md with the wheel on {name} ...", flush=True)
    follow_the_tutorial(python, wheel, home)


if __name__ == "__main__":
    main(sys.argv[1:])
