"""``manage.py idem`` as a whole: how it is called, what it exits with, that it shows nothing dangerous."""

from __future__ import annotations

import json
import os
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.identity.text import harmless
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.management.commands.idem import Command
from django_idempotent_tasks.operations.text import span
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.support.keys import HOSTILE, Keys, both, idem

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])


def test_options_may_be_given_as_words_and_as_keywords() -> None:
    keys = Keys("default")
    other = Call(Identity(uuid4(), None, "8", None), "shop.other", "T", None)
    wanted = keys.claimed()
    keys.claimed(other)
    for words, options in (
        (["--task", "shop.charge"], {}),
        ([], {"task": "shop.charge"}),
        (["--task", "shop.charge"], {"older_than": "0s", "limit": 5, "state": "running"}),
    ):
        code, printed = idem("keys", "list", *words, format="json", **options)
        assert (code, [key["digest"] for key in json.loads(printed)["keys"]]) == (0, [str(wanted.digest)])


def test_the_shells_options_of_django_may_follow_the_sub_command() -> None:
    parser = Command().create_parser("manage.py", "idem")
    words = ["keys", "list", "--settings", "x.settings", "--traceback", "-v", "2", "--no-color"]
    options = parser.parse_args(words)
    found = (options.settings, options.traceback, options.verbosity, options.no_color)
    assert found == ("x.settings", True, 2, True)
    assert parser.parse_args(["keys", "list"]).traceback is False


def test_a_wrong_word_ends_with_2_and_the_usage_in_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["nonsense"],
        [],
        ["keys"],
        ["keys", "show", "not-a-digest"],
        ["keys", "release", str(uuid4())],
    ):
        with pytest.raises(SystemExit) as end:
            Command().run_from_argv(["manage.py", "idem", *words])
        assert end.value.code == 2
        assert "usage: manage.py idem" in capsys.readouterr().err


def test_a_noun_without_a_verb_names_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Command().run_from_argv(["manage.py", "idem", "batches"])
    assert "{list,show,errors,redrive,cancel}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "options", "remedy"),
    [
        (["keys", "list", "--older-than", "soon"], {}, "write 90s, 15m, 2h or 7d"),
        (["keys", "list"], {"older_than": "soon"}, "write 90s, 15m, 2h or 7d"),
        (["keys", "list", "--state", "dead"], {}, "use one of pending, running, retry"),
        (["keys", "list", "--limit", "0"], {}, "between 1 and"),
        (
            ["keys", "show", "abc"],
            {},
            "'idem keys list' and 'idem dead-letters list --rows' print them in full",
        ),
        (["keys", "show"], {}, "Give a digest, or --task NAME and --key TEXT"),
        (["keys", "show", "--task", "t", "--key", ""], {}, "give a value that names this piece of work"),
        (["prune", "--pause", "-1"], {}, "no number of seconds"),
        (["status", "--database", "nope"], {}, "use one of default, sqlite"),
    ],
)
def test_a_wrong_value_is_an_error_with_2_that_says_what_to_write(
    words: list[str], options: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(CommandError, match=remedy) as error:
        idem(*words, **options)
    assert error.value.returncode == 2


@pytest.mark.parametrize("text", ["a\0b", "\udc80"], ids=ascii)
@pytest.mark.parametrize(
    ("verb", "option"),
    [("list", "task"), ("list", "scope"), ("show", "task"), ("show", "scope"), ("show", "key"),
     ("cancel", "task"), ("cancel", "scope"), ("release", "reason")],
)  # fmt: skip
def test_a_text_that_no_column_holds_is_an_error_with_2_that_says_so(
    verb: str, option: str, text: str
) -> None:
    needed = {"show": ["--task", "t", "--key", "k"], "release": [str(uuid4()), "--reason", "r"]}
    words = ["keys", verb, *needed.get(verb, [])]
    for given, options in (([*words, f"--{option}", text], {}), (words, {option: text})):
        with pytest.raises(CommandError, match="NUL or bytes that are no text") as error:
            idem(*given, **options)
        assert error.value.returncode == 2
        assert text not in str(error.value), "it can be printed anywhere"


def test_an_undecodable_byte_of_a_shell_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        Command().run_from_argv(["manage.py", "idem", "keys", "list", "--task", os.fsdecode(b"\x80")])
    assert end.value.code == 2
    assert "bytes that are no text" in capsys.readouterr().err


def test_a_wrong_setting_is_an_error_with_2(settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"LEESE": 5}
    with pytest.raises(CommandError, match="Did you mean 'LEASE'") as error:
        idem("status")
    assert error.value.returncode == 2


@both
def test_a_tasks_text_can_do_nothing_to_a_terminal(keys: Keys) -> None:
    identity = Identity(uuid4(), HOSTILE.replace("\n", ""), HOSTILE, None)
    claim = keys.claimed(
        Call(identity, f"shop.{HOSTILE}", HOSTILE, f'{{"v": 1, "args": ["{harmless(HOSTILE)}"]}}')
    )
    assert keys.fail(claim, failure=a_failure("E", HOSTILE))
    for words in (["list"], ["show", claim.digest, "--payload"], ["cancel", claim.digest]):
        for form in ("text", "json"):
            _, printed = idem("keys", *words, "--database", keys.alias, "--format", form)
            lines = printed.splitlines()
            assert all(line.isprintable() for line in lines), printed
            assert not any(line.startswith("INJECTED") for line in lines)
    assert "\\x1b[2J" in idem("keys", "show", claim.digest, "--database", keys.alias)[1]


def test_durations_are_told_in_their_two_largest_units() -> None:
    told = [span(seconds) for seconds in (-1, 0.4, 59, 60, 3660, 86399, 90061)]
    assert told == ["0 s", "0 s", "59 s", "1 m", "1 h 1 m", "23 h 59 m", "1 d 1 h"]
