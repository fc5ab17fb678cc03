"""The tables. Rows are written by the stores with one statement a transition; read them, do not save them."""

from __future__ import annotations

from .duplicates import DuplicateAttempt
from .leader import Leader
from .ledger import AnsweredCall, IdempotencyKey

__all__ = ["AnsweredCall", "DuplicateAttempt", "IdempotencyKey", "Leader"]
