"""What task bodies report and what they wait for, as files: it works while databases and brokers are down."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually

#: A body that nobody lets through gives up after this many seconds.
LONGEST_VISIT = 90.0


@dataclass(frozen=True)
class Journal:
    """Entries that bodies in any process append, and gates at which they stop until a test opens them."""

    directory: Path

    def write(self, event: str, key: str, **facts: Any) -> None:
        """Append one entry; appends of one line do not mix."""
        entry = {"event": event, "key": key, "pid": os.getpid(), "at": time.time(), **facts}
        with (self.directory / "entries").open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def read(self, event: str, key: str = "") -> list[dict[str, Any]]:
        """List the entries of an event, of one key or of all; not one that is just being written."""
        path = self.directory / "entries"
        text = path.read_text() if path.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        entries = [json.loads(line) for line in lines]
        return [entry for entry in entries if entry["event"] == event and key in {"", entry["key"]}]

    def wait_for(self, event: str, key: str, *, count: int = 1, within: float = 30.0) -> dict[str, Any]:
        """Wait until the event has happened ``count`` times for the key; that entry."""
        entries = eventually(
            lambda: found if len(found := self.read(event, key)) >= count else None,
            f"{event} of {key} (number {count})",
            within=within,
        )
        return entries[count - 1]

    def started(self, key: str, *, attempt: int = 1, within: float = 30.0) -> dict[str, Any]:
        """Wait until this attempt's body has begun; its entry."""
        return next(
            entry
            for entry in eventually(
                lambda: [e for e in self.read("started", key) if e["attempt"] == attempt],
                f"attempt {attempt} of {key}",
                within=within,
            )
        )

    def starts(self, key: str) -> int:
        """Count how often the body of a key has begun."""
        return len(self.read("started", key))

    def visit(self, gate: str) -> None:
        """Stop at a gate until it is open; called by task bodies."""
        (self.directory / f"{gate}.visited").touch()
        eventually((self.directory / f"{gate}.open").exists, f"gate {gate}", within=LONGEST_VISIT)

    def is_open(self, gate: str) -> bool:
        """Tell whether a gate is open, without stopping at it."""
        return (self.directory / f"{gate}.open").exists()

    def open(self, *gates: str) -> None:
        """Open gates, for those who wait and for those who come later."""
        for gate in gates:
            (self.directory / f"{gate}.open").touch()

    def open_all(self) -> None:
        """Let everybody go who waits at a gate."""
        self.open(*(path.stem for path in self.directory.glob("*.visited")))
