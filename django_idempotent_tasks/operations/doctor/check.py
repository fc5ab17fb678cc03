"""The values of the doctor: a check, what it found, and the catalogue of one subject's checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

#: The page that has a row for each check.
PAGE = "docs/reference/doctor.md"


class Severity(IntEnum):
    """How bad it is: an error loses or repeats work, a warning is a risk, advice changes no exit code."""

    ADVICE = 1
    WARNING = 2
    ERROR = 3


#: Reads a project, or what a server answered, and says what is wrong with it, a sentence for each.
Look: TypeAlias = Callable[[Any], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the doctor looks at. ``why`` and ``remedy`` are whole sentences."""

    id: str
    severity: Severity
    subject: str
    finds: str
    why: str
    remedy: str
    look: Look

    @property
    def link(self) -> str:
        """Where the documentation has its row."""
        return f"{PAGE}#{self.subject.lower().replace(' ', '-')}"

    def findings(self, read: Any) -> Iterator[Finding]:
        """What is wrong with what was read."""
        for saw in self.look(read):
            yield Finding(self.id, self.severity, self.subject, saw, self.why, self.remedy, self.link)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong: what the doctor saw, why it matters, what to do, and where to read more."""

    id: str
    severity: Severity
    subject: str
    saw: str
    why: str
    remedy: str
    link: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The checks of one subject, in the order in which they are written."""

    subject: str
    checks: list[Check] = field(default_factory=list)

    def check(
        self, name: str, severity: Severity, *, finds: str, why: str, remedy: str
    ) -> Callable[[Look], Look]:
        """Make a check of a function that says what it saw."""

        def added(look: Look) -> Look:
            self.checks.append(Check(name, severity, self.subject, finds, why, remedy, look))
            return look

        return added
