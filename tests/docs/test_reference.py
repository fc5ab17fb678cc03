"""The reference has every option, setting, signal, check, command, state, exception; and the defaults."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.apps import apps
from django.core.management import load_command_class
from django.dispatch import Signal

import django_idempotent_tasks
from django_idempotent_tasks import IdempotentTask, exceptions, signals
from django_idempotent_tasks.conf.options import NAMES, Policy
from django_idempotent_tasks.conf.project import Settings
from django_idempotent_tasks.http import JobStatusView
from django_idempotent_tasks.management.cli.report import could_not_run
from django_idempotent_tasks.operations.doctor.examine import LIVE, all_checks
from django_idempotent_tasks.states import Category, Reason, State
from tests.docs.tables import named, rows, value

PACKAGE = Path(django_idempotent_tasks.__file__).parent


def _policy() -> Policy:
    app = Celery("reference", broker="memory://", set_as_current=False)

    @app.task(base=IdempotentTask, shared=False)
    def plain(order_id: int) -> None: ...

    found: Any = app.tasks[plain.name]
    policy: Policy = found.idempotency_policy
    return policy


def test_every_option_with_its_default() -> None:
    page = named("options.md")
    assert set(page) == set(NAMES)
    policy = _policy()
    said = {name: value(default) for name, (default, _meaning) in page.items()}
    assert (said.pop("key"), said.pop("fingerprint")) == ("all arguments", "see below")
    assert said.pop("scope") is policy.key_rules.scope is None
    assert said.pop("sensitive") == tuple(policy.sensitive)
    assert said == {name: getattr(policy, name) for name in said}


def test_every_setting_with_its_default() -> None:
    said = {name: value(default) for name, (default, _meaning) in named("settings.md").items()}
    assert said == {field.name.upper(): field.default for field in dataclasses.fields(Settings)}


def test_every_signal_with_its_arguments() -> None:
    names = {name for name, given in vars(signals).items() if isinstance(given, Signal)}
    page = named("signals.md")
    assert set(page) == names
    for names_of, arguments in _documented_signals():
        for name in names_of:
            assert re.findall(r"``?(\w+)``?", page[name][0]) == arguments, name


def _documented_signals() -> Iterator[tuple[list[str], list[str]]]:
    """Of the module's docstring."""
    for item in re.split(r"^\* ", str(signals.__doc__), flags=re.MULTILINE)[1:]:
        names, _, arguments = item.partition(": ")
        yield re.findall(r"``(\w+)``", names), re.findall(r"``(\w+)``", arguments.partition(";")[0])


def test_every_check() -> None:
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert set(named("checks.md")) == set(re.findall(r'id=f"\{ID\}\.([EW]\d{3})"', sources))


def test_every_check_of_the_doctor_word_by_word() -> None:
    servers = {check.id for group in LIVE for check in group.checks}
    for subject in {check.subject for check in all_checks()}:
        code = {
            check.id: [
                f"{check.severity.name.lower()}{', live' if check.id in servers else ''}",
                check.finds,
                check.why,
                check.remedy,
            ]
            for check in all_checks()
            if check.subject == subject
        }
        assert named("doctor.md", subject) == code


def test_every_permission_of_our_own() -> None:
    models = apps.get_app_config("django_idempotent_tasks").get_models()
    there = {name for model in models for name, _words in model._meta.permissions}
    assert {name for first, _allows in rows("admin.md") for name in re.findall(r"`(\w+)`", first)} == there


@pytest.mark.parametrize(
    ("kind", "heading"),
    [(State, "States of a key"), (Reason, "Reasons beside the state"), (Category, "Categories of a failure")],
)
def test_every_state_reason_and_category_with_its_number(kind: type[IntEnum], heading: str) -> None:
    said = {name: value(number) for name, (number, *_rest) in named("outcomes.md", heading).items()}
    assert said == {each.name: each.value for each in kind}


def test_every_exception_with_what_else_it_is() -> None:
    page = named("exceptions.md")
    for name, kind in vars(exceptions).items():
        if not (isinstance(kind, type) and issubclass(kind, exceptions.IdempotencyError)):
            continue
        if name not in django_idempotent_tasks.__all__:
            text = (PACKAGE.parent / "docs/reference/exceptions.md").read_text()
            assert f"`{name}`" in text
            continue
        others = [base.__name__ for base in kind.__bases__ if base is not exceptions.IdempotencyError]
        assert others == (re.findall(r"`(\w+)`", page[name][0]) if len(page[name]) > 1 else []), name


def _leaves(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not any(action.required for action in below):
        yield " ".join(words), parser
    for action in below:
        for name, each in action.choices.items():
            yield from _leaves(each, *words, name)


def _options(parser: argparse.ArgumentParser) -> set[str]:
    """Their longest spelling; not those that every command has."""
    spelled: list[Any] = [action.option_strings for action in parser._actions if action.option_strings]
    everywhere = {"--help", "--version", "--settings", "--pythonpath", "--no-color", "--force-color"}
    everywhere |= {"--format", "--database", "--skip-checks", "--verbosity"}
    found = {next(name for name in names if name.startswith("--")) for names in spelled}
    return found - everywhere


def test_every_command_with_its_options() -> None:
    idem = load_command_class("django_idempotent_tasks", "idem").create_parser("manage.py", "idem")
    page = {name.removeprefix("idem "): cells for name, cells in named("commands.md").items()}
    code = dict(_leaves(idem))
    assert set(page) == set(code)
    filters = set(re.findall(r"--[\w-]+", _paragraph("The filters are"))) - {"--newer-than", "--older-than"}
    traceback = {"--traceback"}
    for name, parser in code.items():
        options = page[name][1]
        said = set(re.findall(r"--[\w-]+", options)) | (filters if "the filters" in options else set())
        assert said - traceback == _options(parser) - traceback, name


def _paragraph(words: str) -> str:
    text = (PACKAGE.parent / "docs/reference/commands.md").read_text()
    return text[text.index(words) :].partition("\n")[0]


def test_every_exit_code() -> None:
    codes = [int(first) for first, *_rest in rows("commands.md") if first.isdigit()]
    assert codes == [0, 1, could_not_run("").returncode]


def test_every_status_over_http() -> None:
    source = "".join((PACKAGE / "http" / name).read_text() for name in ("submit.py", "requests.py"))
    answers = {int(code) for code in re.findall(r"(?:problem|_job)\((?:\w+, )?\s*(\d{3})", source)}
    told = [answer for _key, answer in rows("http.md") if re.match(r"\d{3}", answer)]
    said = {code for answer in told for code in re.findall(r"\b[245]\d\d\b", answer)}
    assert set(map(int, said)) == answers
    assert JobStatusView.http_method_names == ["get", "head", "options"]
