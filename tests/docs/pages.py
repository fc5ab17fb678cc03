"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

_FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>[^>]+) -->\s*\Z")
_FILE = re.compile(r"# (?P<path>[\w/]+\.py)\b")
_SHELL = re.compile(r"# in (?:a|the same) shell\b")

#: Of the tutorial's files those that any project with Celery has; the other pages go on with that project.
SETTING_UP = {"proj/settings.py", "proj/celery.py", "proj/__init__.py"}


@dataclass(frozen=True)
class Block:
    """One fenced block; ``line`` is that of its first line of code."""

    page: Path
    line: int
    language: str
    text: str
    is_run: bool

    @property
    def where(self) -> str:
        """For people."""
        return f"{name_of(self.page)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that its first line names."""
        named = _FILE.match(self.text)
        return named["path"] if named else None

    @property
    def module(self) -> str | None:
        """The same, as it is imported."""
        return (
            self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") if self.file else None
        )

    @property
    def is_shell(self) -> bool:
        """Whether it is typed into ``manage.py shell``; all such blocks of a page share one."""
        return self.language == "python" and _SHELL.match(self.text) is not None


def name_of(page: Path) -> str:
    """A page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """All fenced blocks of a page, in order; ``<!-- not run: why -->`` before one keeps it from running."""
    text = page.read_text()
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()]
        code = re.sub(rf"^{fence[1]}", "", fence[4], flags=re.MULTILINE)
        yield Block(page, before.count("\n") + 2, fence[3], code, _NOT_RUN.search(before) is None)


def prose(page: Path) -> str:
    """A page without its blocks and its inline code."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text()))
