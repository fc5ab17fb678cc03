"""The gateway's books: one SQLite file with its charges, its answers by key, and every call it got."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (key TEXT NOT NULL, reference TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS calls_by_key ON calls (key);
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS charges (
    id TEXT PRIMARY KEY, key TEXT NOT NULL,
    reference TEXT NOT NULL, amount TEXT NOT NULL, currency TEXT NOT NULL
);
"""

#: The test amount that the customer's bank declines.
DECLINED_AMOUNT = "402.00"

#: The test amount that is refused with an answer that a faulty client cannot read.
UNREADABLE_AMOUNT = "400.00"

#: The test amount whose bank is down until it is said to be up again.
OUTAGE_AMOUNT = "503.00"

#: A payment that the bank settles later: its charge is answered as pending, and the webhook tells the rest.
DEBIT = "debit"

REFUSALS = {
    DECLINED_AMOUNT: (HTTPStatus.PAYMENT_REQUIRED, "the card was declined"),
    UNREADABLE_AMOUNT: (HTTPStatus.BAD_REQUEST, "the amount is not allowed"),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gateway says to one call."""

    status: int
    body: dict[str, Any]
    replayed: bool = False
    retry_after: int | None = None


class GatewayStore:
    """Decides each call under one lock, so that two calls with one key make one charge."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._outage_is_over = threading.Event()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        # The log outlives a killed process; a power cut may cost the last calls.
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(SCHEMA)

    def count_call(self, key: str, reference: str) -> None:
        """Note that a call with ``key`` arrived, whatever becomes of it."""
        with self._lock:
            self._database.execute("INSERT INTO calls VALUES (?, ?)", (key, reference))

    def is_down(self, amount: str) -> bool:
        """Whether the bank that this charge needs does not answer."""
        return amount == OUTAGE_AMOUNT and not self._outage_is_over.is_set()

    def recover(self) -> None:
        """End the outage."""
        self._outage_is_over.set()

    def charge(self, key: str, order: dict[str, str]) -> Answer:
        """Charge, or answer again what ``key`` was answered first. Another order under it is an error.

        A debit is settled by the time that it is asked for again.
        """
        digest = hashlib.sha256(json.dumps(order, sort_keys=True).encode()).hexdigest()
        with self._lock:
            known = self._database.execute(
                "SELECT digest, status, body FROM answers WHERE key = ?", (key,)
            ).fetchone()
            if known is None:
                return self._decide(key, digest, order)
        if known[0] != digest:
            return Answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": "this key was used for another charge"})
        body = json.loads(known[2])
        if known[1] == HTTPStatus.CREATED:
            body["status"] = "completed"
        return Answer(known[1], body, replayed=True)

    def _decide(self, key: str, digest: str, order: dict[str, str]) -> Answer:
        if order["amount"] in REFUSALS:
            status, error = REFUSALS[order["amount"]]
            answer = Answer(status, {"error": error})
        else:
            state = "pending" if order.get("method") == DEBIT else "completed"
            answer = Answer(HTTPStatus.CREATED, {"id": f"ch_{uuid.uuid4().hex}", **order, "status": state})
        self._database.execute("BEGIN IMMEDIATE")
        with self._database:
            self._database.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?)",
                (key, digest, answer.status, json.dumps(answer.body)),
            )
            if answer.status == HTTPStatus.CREATED:
                row = (answer.body["id"], key, order["reference"], order["amount"], order["currency"])
                self._database.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?)", row)
        return answer

    def charges(self) -> list[dict[str, str]]:
        """Return all charges, in no order."""
        with self._lock:
            rows = self._database.execute(
                "SELECT id, key, reference, amount, currency FROM charges"
            ).fetchall()
        return [dict(zip(("id", "key", "reference", "amount", "currency"), row, strict=True)) for row in rows]

    def calls(self) -> dict[str, int]:
        """Return how many calls came in for each reference."""
        with self._lock:
            rows = self._database.execute("SELECT reference, count(*) FROM calls GROUP BY reference")
            return dict(rows.fetchall())

    def stats(self) -> dict[str, int]:
        """Return how many charges were made, calls came in, and keys were called more than once."""
        twice = "SELECT count(*) FROM (SELECT key FROM calls GROUP BY key HAVING count(*) > 1)"
        return {
            "charges": self._count("SELECT count(*) FROM charges"),
            "raw_calls": self._count("SELECT count(*) FROM calls"),
            "keys_called_twice": self._count(twice),
        }

    def _count(self, query: str) -> int:
        with self._lock:
            return int(self._database.execute(query).fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._database.close()
