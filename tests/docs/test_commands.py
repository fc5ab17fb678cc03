"""Commands in the documentation: ``manage.py idem`` and ``celery`` take them as they are written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError

from tests.docs.pages import PAGES, Block, blocks
from tests.docs.typed import take_celery, take_idem

SHELLS = {"console", "sh", "shell", "bash", ""}


def _lines() -> Iterator[tuple[Block, list[str]]]:
    for page in PAGES:
        for block in blocks(page):
            if block.language in SHELLS:
                for line in block.text.replace("\\\n", " ").splitlines():
                    yield block, shlex.split(line.removeprefix("$ "), comments=True)


def _starting(*words: str) -> list[Any]:
    """What follows these words, of each command that begins with them."""
    found = []
    for block, given in _lines():
        if given[:1] in (["python"], ["python3"]):
            given = given[1:]  # noqa: PLW2901
        if given[: len(words)] == list(words):
            found.append(pytest.param(given[len(words) :], id=f"{block.where} {' '.join(given)}"))
    return found


@pytest.mark.parametrize("words", _starting("manage.py", "idem"))
def test_idem_takes_it(words: list[str]) -> None:
    try:
        take_idem(words)
    except CommandError as error:
        pytest.fail(str(error))


@pytest.mark.parametrize("words", _starting("celery"))
def test_celery_takes_it(words: list[str]) -> None:
    take_celery(words)


def test_there_are_such_commands() -> None:
    assert len(_starting("manage.py", "idem")) > 5
    assert len(_starting("celery")) > 2
