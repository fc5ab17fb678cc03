"""What goes with a release: descriptions that a package index takes, a bill of materials, the licences.

The tools for it are in an environment of their own, which is thrown away.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT
from tests.project.wheel.environments import QUIETLY, TARGET, run

TOOLS = ("twine>=6", "cyclonedx-bom>=7", "pip-licenses>=5")
MATERIALS = TARGET / "sbom.cdx.json"
LICENCES = TARGET / "licences.json"


def check_descriptions(tools: Path, wheel: Path, sdist: Path) -> None:
    """Ask twine whether an index would show both archives as they are meant; makes the tools' environment."""
    run(sys.executable, "-m", "venv", tools)
    run(tools / "bin" / "python", "-m", "pip", "install", *QUIETLY, *TOOLS)
    run(tools / "bin" / "twine", "check", "--strict", wheel, sdist)
    print("twine takes the descriptions of both archives", flush=True)


def write_papers(tools: Path, wheel: Path, environment: Path) -> None:
    """Write what the wheel brings along, in CycloneDX, and under which licences it is."""
    python = environment / "bin" / "python"
    # Without pip, which the wheel does not bring along.
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    run(tools / "bin" / "python", "-m", "pip", "--python", python, "install", *QUIETLY, wheel)
    document = ("--output-reproducible", "--validate", "--output-file", MATERIALS)
    run(
        tools / "bin" / "cyclonedx-py",
        "environment",
        "--pyproject",
        ROOT / "pyproject.toml",
        *document,
        python,
    )
    # The tool leaves out what it needs itself, unless it is told.
    listing = ("--format", "json", "--with-system", "--with-urls", "--output-file", LICENCES)
    run(tools / "bin" / "pip-licenses", "--python", python, *listing)
    wrong = papers_problems(json.loads(MATERIALS.read_text()), json.loads(LICENCES.read_text()))
    if wrong:
        sys.exit("\n".join(wrong))
    for each in json.loads(LICENCES.read_text()):
        print(f"  {each['Name']} {each['Version']}: {each['License']}", flush=True)


def papers_problems(materials: dict[str, Any], licences: list[dict[str, str]]) -> list[str]:
    """What is missing in them, in words."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    release = materials["metadata"]["component"]
    parts = {each["name"].lower() for each in materials["components"]}
    found = []
    if (release["name"], release.get("version")) != (project["name"], project["version"]):
        found.append(f"the bill of materials is of {release['name']} {release.get('version')}")
    found += [f"the bill of materials lacks {name}" for name in ("django", "celery") if name not in parts]
    listed = {each["Name"].lower() for each in licences}
    found += [f"the list of licences lacks {name}" for name in sorted(parts - listed)]
    return found + [
        f"the licence of {each['Name']} is not known" for each in licences if each["License"] == "UNKNOWN"
    ]
