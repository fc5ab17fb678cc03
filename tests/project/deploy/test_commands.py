"""What the files of ``deploy/`` start can be started, and what they name is there."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from celery.app.defaults import NAMESPACES, flatten

from django_idempotent_tasks.conf.project import Settings
from tests.docs.pages import ROOT
from tests.docs.typed import take_celery, take_django, take_idem
from tests.project.deploy.files import DEPLOY, Command, commands

PAGE = ROOT / "docs" / "how-to" / "deploy.md"
#: Programs of others: the shell's words, servers and their clients.
THEIRS = {"for", "done", "exit", "[", "systemctl", "gunicorn", "valkey-server"}
THEIRS |= {"valkey-cli", "pg_isready", "rabbitmq-diagnostics"}
STARTED = [pytest.param(words, id=f"{place}: {' '.join(words)}") for place, words in commands()]
TEXTS = [PAGE, *(path for path in DEPLOY.rglob("*") if path.is_file())]


@pytest.mark.parametrize("words", STARTED)
def test_each_command_is_one_that_its_program_takes(words: Command) -> None:
    program, *rest = words
    if program == "celery":
        take_celery(rest)
    elif rest[:2] == ["manage.py", "idem"]:
        take_idem(rest[2:])
    elif program == "python":
        take_django(rest[1], rest[2:])
    else:
        assert program in THEIRS


def test_workers_beat_the_sweeper_the_migrations_and_their_probes_are_started() -> None:
    started = [" ".join(words[: words.index("idem") + 3]) for _, words in commands() if "idem" in words]
    said = {text.partition("idem ")[2].partition(" --")[0] for text in started}
    assert said == {"beat", "sweep", "doctor", "health worker", "health beat"}
    assert sum(words[:4] == ("celery", "-A", "proj", "worker") for _, words in commands()) == 3
    assert sum("migrate" in words for _, words in commands()) == 3


def test_each_setting_that_they_name_is_there() -> None:
    options: Any = flatten(NAMESPACES)  # celery-types takes the pairs for texts
    celerys = {name for name, _option in options}
    ours = {field.name.upper() for field in dataclasses.fields(Settings)}
    for path in TEXTS:
        text = path.read_text()
        assert set(re.findall(r"\b(?:worker|task|broker)_[a-z_]+\b", text)) <= celerys, path
        named = {name.lower() for name in re.findall(r"\bCELERY_([A-Z_]+)\b", text)}
        assert named <= celerys, path
        assert set(re.findall(r'"([A-Z_]{6,})": ', text)) <= ours, path
