"""The canvases: what each is sent as, and what its end must have been told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from celery import chain, chord, group

from tests.processes.canvas import tasks


@dataclass
class Form:
    """One canvas in one mode; ``key`` is its own, and is the key of its end."""

    mode: str
    key: str
    canvas: Any = None
    #: What the end is to be told, or words of the error that is heard instead.
    told: Any = None
    #: Keys of which exactly one effect must be there, without those of the end.
    once: set[str] = field(default_factory=set)
    #: What is sent before: calls whose keys the canvas uses again.
    before: list[Any] = field(default_factory=list)

    def name(self, name: str) -> str:
        """A key of a part; it is noted."""
        self.once.add(f"{self.key}-{name}")
        return f"{self.key}-{name}"

    def part(self, name: str, kind: Any = tasks.part) -> Any:
        """A part."""
        return kind[self.mode].si(self.name(name))

    def twin(self, name: str, kind: Any = tasks.part) -> Any:
        """A part whose key another call has taken before."""
        self.before.append(self.part(name, kind))
        return self.part(name, kind)

    def end(self, kind: Any = tasks.collect) -> Any:
        """What comes last."""
        return kind[self.mode].s(key=self.key)

    def inner_end(self) -> Any:
        """The end of a canvas in the canvas."""
        return tasks.collect[self.mode].s(key=self.name("inner"))

    def never(self) -> Any:
        """A part that is not to run."""
        return tasks.part[self.mode].si(f"{self.key}-never")

    def failing(self) -> Any:
        """A twin of what failed before."""
        self.before.append(tasks.failing[self.mode].si(f"{self.key}-failing"))
        return tasks.failing[self.mode].si(f"{self.key}-failing")

    def ignored_twin(self) -> Any:
        """A twin of what ended without a value."""
        self.before.append(tasks.ignoring[self.mode].si(f"{self.key}-ignored"))
        return tasks.ignoring[self.mode].si(f"{self.key}-ignored")

    def heard(self) -> Any:
        """What hears of an error."""
        return tasks.heard[self.mode].s(key=self.key)

    def keys(self, *names: str) -> list[str]:
        """The values of parts."""
        return [f"{self.key}-{name}" for name in names]


Maker = Callable[[Form], tuple[Any, Any]]

#: The canvas, and what its end is told.
FORMS: dict[str, Maker] = {
    "chain": lambda f: (chain(f.part("a"), f.twin("b"), f.end()), f"{f.key}-b"),
    "chord": lambda f: (
        chord([f.part("a"), f.twin("b"), f.part("b"), f.part("c")], f.end()),
        f.keys("a", "b", "b", "c"),
    ),
    "chord of chains": lambda f: (
        chord([chain(f.part("a"), f.twin("b")), chain(f.twin("b"), f.part("c"))], f.end()),
        f.keys("b", "c"),
    ),
    "group in a chain": lambda f: (
        chain(f.part("a"), group(f.twin("b"), f.part("c")), f.end()),
        f.keys("b", "c"),
    ),
    "chord in a chord": lambda f: (
        chord([chord([f.part("a"), f.twin("b")], f.inner_end()), f.part("c")], f.end()),
        [f.keys("a", "b"), f"{f.key}-c"],
    ),
    "link": lambda f: (f.twin("a").set(link=f.end()), f"{f.key}-a"),
    "redelivered chain": lambda f: (chain(f.part("a", tasks.doubled), f.end()), f"{f.key}-a"),
    "redelivered parts": lambda f: (
        chord([f.part("a", tasks.doubled), f.part("b", tasks.doubled), f.part("c")], f.end()),
        f.keys("a", "b", "c"),
    ),
    "killed part": lambda f: (
        chord([f.part("a", tasks.dying), f.part("b")], f.end()),
        f.keys("a", "b"),
    ),
    "killed twin": lambda f: (
        chord([f.twin("a", tasks.dying), f.part("b")], f.end()),
        f.keys("a", "b"),
    ),
    "killed between result and count": lambda f: (
        chord([f.part("a"), f.part("b", tasks.uncounted)], f.end()),
        f.keys("a", "b"),
    ),
    "replaced by a task": lambda f: (
        chain(f.part("a", tasks.becomes_part), f.end()),
        f"{f.name('a-new')}",
    ),
    "replaced twins": lambda f: (
        chord([f.twin("a", tasks.becomes_part), f.part("a", tasks.becomes_part)], f.end()),
        [f.name("a-new")] * 2,
    ),
    "replaced by a chord": lambda f: (
        chord([f.twin("a", tasks.becomes_chord), f.part("b")], f.end()),
        [[f.name("a-1"), f.name("a-2")], f"{f.key}-b"],
    ),
    "replaced by a chain": lambda f: (
        chain(f.twin("a", tasks.becomes_chain), f.end()),
        f.name("a-2-new"),
    ),
    "killed before its end was sent": lambda f: (
        chord([f.part("a"), f.part("b")], f.end(tasks.unsent)),
        f.keys("a", "b"),
    ),
    "killed before its replacement was sent": lambda f: (
        chord([f.part("a"), tasks.becomes_unsent[f.mode].si(f"{f.key}-b")], f.end()),
        [f"{f.key}-a", f.name("b-new") and "sent"],
    ),
    "spawning group": lambda f: (
        chain(group(f.part(each, tasks.becomes_part) for each in "abc"), f.end()),
        [f.name(f"{each}-new") for each in "abc"],
    ),
}
#: Those of which an error is heard: the canvas, and words of it.
ERRORS: dict[str, Maker] = {
    "failed twin in a chord": lambda f: (
        chord([f.part("a"), f.failing()], f.end().on_error(f.heard())),
        "ValueError",
    ),
    "failed twin in a chain": lambda f: (
        chain(f.part("a"), f.failing().on_error(f.heard()), f.end()),
        "ValueError",
    ),
    "link_error": lambda f: (f.failing().set(link_error=f.heard()), "ValueError"),
    "nested failing header": lambda f: (
        chord([chain(f.part("a"), f.failing(), f.never()), f.part("b")], f.end().on_error(f.heard())),
        "ValueError",
    ),
    "ignored part": lambda f: (
        chord([f.part("a"), tasks.ignoring[f.mode].si(f"{f.key}-x")], f.end().on_error(f.heard())),
        "Ignore",
    ),
    "ignored twin": lambda f: (
        chord([f.part("a"), f.ignored_twin()], f.end().on_error(f.heard())),
        "Ignore",
    ),
    "circle": lambda f: (
        chord([f.part("a"), tasks.circular[f.mode].si(f"{f.key}-x")], f.end().on_error(f.heard())),
        "own key",
    ),
}


def make(mode: str, name: str, key: str) -> Form:
    """A canvas of its own."""
    form = Form(mode, key)
    form.canvas, form.told = {**FORMS, **ERRORS}[name](form)
    return form
