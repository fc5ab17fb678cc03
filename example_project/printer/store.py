"""The printer's memory: one SQLite file with every sheet that came out, and every call it got."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sheets (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE, badge TEXT NOT NULL, text TEXT NOT NULL
);
"""


class PrinterStore:
    """Prints under one lock, so that two calls with one key make one sheet."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        # The log outlives a killed process; a power cut may cost the last sheets.
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(SCHEMA)

    def print(self, key: str, badge: str, text: str) -> int:
        """Print one sheet for ``key``, however often it is asked for, and return the sheet's number."""
        with self._lock:
            self._database.execute("INSERT INTO calls VALUES (?)", (key,))
            self._database.execute(
                "INSERT INTO sheets (key, badge, text) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING",
                (key, badge, text),
            )
            [found] = self._database.execute("SELECT number FROM sheets WHERE key = ?", (key,)).fetchone()
        return int(found)

    def sheets(self) -> list[str]:
        """Return the badge of each sheet, so that a badge that came out twice is there twice."""
        with self._lock:
            rows = self._database.execute("SELECT badge FROM sheets ORDER BY number").fetchall()
        return [badge for (badge,) in rows]

    def calls(self) -> int:
        """Return how many calls came in."""
        with self._lock:
            return int(self._database.execute("SELECT count(*) FROM calls").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._database.close()
