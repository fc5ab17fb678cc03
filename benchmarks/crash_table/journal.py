"""What the bodies of tasks do, line by line in a file: it outlives every process that is killed."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "BENCH_JOURNAL"


@dataclass(frozen=True)
class Entry:
    """One event of one piece of work: in which process, and when by the machine's clock."""

    event: str
    key: str
    pid: int
    at: float


@dataclass(frozen=True)
class Journal:
    """A file that any process appends to."""

    path: Path

    @classmethod
    def here(cls) -> Journal:
        """The journal that this process was told of."""
        return cls(Path(os.environ[VARIABLE]))

    def announce(self) -> None:
        """Tell the processes that this one starts."""
        self.path.touch()
        os.environ[VARIABLE] = str(self.path)

    def write(self, event: str, key: str) -> None:
        """Append one entry; appends of one short line do not mix."""
        line = json.dumps({"event": event, "key": key, "pid": os.getpid(), "at": time.time()})
        with self.path.open("a") as file:
            file.write(line + "\n")

    def read(self, event: str, key: str) -> list[Entry]:
        """The entries of one event of one key, oldest first."""
        return [entry for entry in self._entries(key) if entry.event == event]

    def count(self, event: str, key: str) -> int:
        """How often the event has happened."""
        return len(self.read(event, key))

    def most_at_once(self, key: str) -> int:
        """How many runs of a key were under way at the same time, at most; one that died never ends."""
        running = most = 0
        for entry in self._entries(key):
            running += {"start": 1, "end": -1}.get(entry.event, 0)
            most = max(most, running)
        return most

    def _entries(self, key: str) -> list[Entry]:
        # A line that is being written has no end yet.
        lines = self.path.read_text().split("\n")[:-1]
        found: list[dict[str, Any]] = [json.loads(line) for line in lines if f'"{key}"' in line]
        return [Entry(**fields) for fields in found]
