"""Takes commands apart as the programs would that they name; nothing is run."""

from __future__ import annotations

from collections.abc import Sequence

import click
from celery.bin.celery import celery as celery_command
from django.core.management import get_commands, load_command_class


def take_idem(words: Sequence[str]) -> None:
    """Read what follows ``manage.py idem``; raises CommandError."""
    parser = load_command_class("django_idempotent_tasks", "idem").create_parser("manage.py", "idem")
    assert parser.parse_args(words).action is not None


def take_django(name: str, words: Sequence[str]) -> None:
    """Read what follows ``manage.py`` and the name of one of Django's own commands; raises CommandError."""
    app = get_commands()[name]
    assert isinstance(app, str)
    load_command_class(app, name).create_parser("manage.py", name).parse_args(words)


def take_celery(words: Sequence[str]) -> None:
    """Read what follows ``celery``; raises click.ClickException."""
    first = next(word for word in words if word in celery_command.commands)
    before, command = words[: words.index(first)], celery_command.commands[first]
    for each, given in ((celery_command, before), (command, words[len(before) + 1 :])):
        _options, rest, _order = each.make_parser(click.Context(each)).parse_args(args=list(given))
        # Of celery inspect the method is left, and is the one that it calls.
        assert not rest or each is celery_command or first in {"inspect", "control"}, rest
