"""The messages of the package as patterns: what its code may print, whatever it fills in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import django_idempotent_tasks

#: What is filled into a message: by name, by place, with a number of digits.
_FILLED = re.compile(r"%\(\w+\)[sd]|%[-+]?[\d.]*[srd]")
#: A message has at least so many letters of its own: a shorter one would match whatever stands there.
_LETTERS = 12


def patterns() -> list[re.Pattern[str]]:
    """One for each text of the code that is long enough to be a message."""
    found = {text for path in _sources() for text in _texts(ast.parse(path.read_text()))}
    return [re.compile(text) for text in sorted(found) if len(re.sub(r"\W|\.\+\?", "", text)) >= _LETTERS]


def is_printed(line: str, among: list[re.Pattern[str]]) -> bool:
    """Whether the code may print the line: as one message, or as several with a space between."""
    for each in among:
        if each.fullmatch(line):
            return True
    for each in among:
        # The shortest beginning that a message may have; the rest is messages again.
        found = each.match(line)
        rest = line[found.end() :] if found else ""
        if rest.startswith(" ") and is_printed(rest[1:], among):
            return True
    return False


def _sources() -> Iterator[Path]:
    package = Path(django_idempotent_tasks.__file__).parent
    return (path for path in package.rglob("*.py") if "migrations" not in path.parts)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _pattern(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else None for part in node.values)
            yield "".join(".+?" if part is None else _pattern(str(part)) for part in parts)


def _pattern(text: str) -> str:
    parts = _FILLED.split(text)
    return ".+?".join(re.escape(part.replace("%%", "%")) for part in parts)
