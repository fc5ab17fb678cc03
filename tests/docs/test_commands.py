"""Commands in the documentation: ``manage.py idem`` and ``celery`` take them as they are written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest
from celery.bin.celery import celery as celery_command
from django.core.management import CommandError, load_command_class

from tests.docs.pages import PAGES, Block, blocks

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
    parser = load_command_class("django_idempotent_tasks", "idem").create_parser("manage.py", "idem")
    try:
        assert parser.parse_args(words).action is not None
    except CommandError as error:
        pytest.fail(str(error))


@pytest.mark.parametrize("words", _starting("celery"))
def test_celery_takes_it(words: list[str]) -> None:
    first = next(word for word in words if word in celery_command.commands)
    before, command = words[: words.index(first)], celery_command.commands[first]
    for each, given in ((celery_command, before), (command, words[len(before) + 1 :])):
        _options, rest, _order = each.make_parser(click.Context(each)).parse_args(args=list(given))
        assert not rest or each is celery_command


def test_there_are_such_commands() -> None:
    assert len(_starting("manage.py", "idem")) > 5
    assert len(_starting("celery")) > 2
