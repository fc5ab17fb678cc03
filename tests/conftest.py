"""What all tests share."""

from __future__ import annotations

import pytest

# The shipped contract explains its failures as the tests here do; it must be said before its first import.
pytest.register_assert_rewrite("django_idempotent_tasks.testing.contract")
