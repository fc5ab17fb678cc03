"""``idem dead-letters list`` and ``export``: what waits for a person, by kind or one by one, in bounds."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.states import Category, State
from tests.management.graves import LEDGERS, WHY, dead, everywhere, many
from tests.support.keys import HOSTILE, Keys, facts, idem
from tests.support.ledger.crowd import fill
from tests.support.ledger.statements import postgresql_plan

pytestmark = pytest.mark.django_db(databases=LEDGERS)

KEY = "django_idempotent_tasks_idempotencykey"
OTHER = "fedcba9876543210"
EXPECTED = "x" + "2" * 15


def listed(keys: Keys, *words: object, name: str = "dead_letters") -> set[str]:
    """The digests that a list of rows shows."""
    code, seen = facts(keys, "dead-letters", "list", *words)
    assert code == 0
    return {row["digest"] for row in seen[name]}


def exported(keys: Keys, *words: object) -> list[Any]:
    """The documents of an export."""
    code, printed = idem("dead-letters", "export", *words, "--database", keys.alias)
    assert code == 0
    return [json.loads(line) for line in printed.splitlines()]


def digests(*claims: Claim) -> set[str]:
    return {str(claim.digest) for claim in claims}


@everywhere
def test_an_expected_end_is_listed_where_it_is_asked_for_and_can_be_redriven(keys: Keys) -> None:
    expected, other = (dead(keys, category=Category.EXPECTED, signature=EXPECTED) for _ in range(2))
    fatal = dead(keys, category=Category.FATAL)
    assert listed(keys, "--rows") == digests(fatal)
    assert listed(keys, "--rows", "--category", "expected") == digests(expected, other)
    assert listed(keys, "--rows", "--signature", EXPECTED) == digests(expected, other)
    code, seen = facts(keys, "dead-letters", "list", "--category", "expected")
    assert (code, [(each["category"], each["count"]) for each in seen["groups"]]) == (0, [("expected", 2)])
    assert facts(keys, "dead-letters", "redrive", "--task", "shop.charge")[1]["dead_letters"] == 1
    assert facts(keys, "dead-letters", "redrive", expected.digest, *WHY)[0] == 0
    assert facts(keys, "dead-letters", "discard", "--category", "expected", *WHY)[0] == 0
    assert [State(keys.row(each).state).name for each in (expected, other)] == ["PENDING", "FAILED"]
    assert keys.row(other).discarded_at is not None


@everywhere
def test_dead_letters_are_grouped_by_their_kind_the_most_frequent_first(keys: Keys) -> None:
    dead(keys, description="old", ago=7200)
    dead(keys, description="new", ago=60)
    dead(keys, signature=OTHER, state=State.REVIEW, category=Category.MANUAL_REVIEW, message=None)
    keys.completed()
    code, seen = facts(keys, "dead-letters", "list")
    assert (code, seen["total"], seen["more"]) == (0, 3, False)
    first, second = seen["groups"]
    assert (first["count"], first["sendable"], first["state"], first["category"]) == (
        2,
        2,
        "failed",
        "retryable",
    )
    assert first["error"] == "builtins.ValueError: new"
    assert first["oldest"] < first["newest"]
    assert (second["signature"], second["count"], second["sendable"]) == (OTHER, 1, 0)
    text = idem("dead-letters", "list", "--database", keys.alias)[1]
    assert "3 dead letter(s)." in text
    assert text.index("0123456789abcdef") < text.index(OTHER)


@everywhere
def test_each_filter_leaves_only_what_it_names(keys: Keys) -> None:
    plain = dead(keys, ago=10)
    task, tenant = dead(keys, task="shop.refund"), dead(keys, scope="tenant-42")
    kind, fatal = dead(keys, signature=OTHER), dead(keys, category=Category.FATAL)
    review, old = dead(keys, state=State.REVIEW), dead(keys, ago=7200)
    assert listed(keys, "--rows") == digests(plain, task, tenant, kind, fatal, review, old)
    assert listed(keys, "--rows", "--task", "shop.refund") == digests(task)
    assert listed(keys, "--rows", "--scope", "tenant-42") == digests(tenant)
    assert listed(keys, "--rows", "--signature", OTHER) == digests(kind)
    assert listed(keys, "--rows", "--category", "fatal") == digests(fatal)
    assert listed(keys, "--rows", "--state", "review") == digests(review)
    assert (
        listed(keys, "--rows", "--older-than", "1h")
        == listed(keys, "--rows", "--until", "1h")
        == digests(old)
    )
    assert str(old.digest) not in listed(keys, "--rows", "--newer-than", "1h")
    assert facts(keys, "dead-letters", "list", "--category", "fatal")[1]["total"] == 1


@everywhere
def test_a_time_may_be_a_moment_in_any_zone(keys: Keys) -> None:
    old, new = dead(keys, ago=7200), dead(keys)
    middle = datetime.now(UTC) - timedelta(hours=1)
    for words in (middle.isoformat(), (middle + timedelta(hours=5)).isoformat().replace("+00:00", "+05:00")):
        assert listed(keys, "--rows", "--since", words) == digests(new)
        assert listed(keys, "--rows", "--until", words) == digests(old)


@everywhere
def test_a_limit_says_that_there_are_more(keys: Keys) -> None:
    for signature in ("1", "2", "3"):
        dead(keys, signature=signature)
    for form, name in (("--rows", "dead_letters"), ("--by-signature", "groups")):
        _, seen = facts(keys, "dead-letters", "list", form, "--limit", 2)
        assert (len(seen[name]), seen["more"]) == (2, True)
        assert facts(keys, "dead-letters", "list", form, "--limit", 3)[1]["more"] is False


@everywhere
def test_what_was_discarded_is_listed_apart(keys: Keys) -> None:
    put_away, kept = dead(keys), dead(keys)
    assert facts(keys, "dead-letters", "discard", put_away.digest, *WHY)[0] == 0
    assert listed(keys, "--rows") == digests(kept)
    assert listed(keys, "--discarded", name="discarded") == digests(put_away)
    assert listed(keys, "--discarded", "--task", "shop.refund", name="discarded") == set()


@everywhere
def test_what_a_task_wrote_can_do_nothing_to_a_terminal(keys: Keys) -> None:
    text = HOSTILE.replace("\n", "")
    claim = dead(
        keys,
        task=f"shop.{HOSTILE}",
        text=HOSTILE,
        scope=text,
        description=HOSTILE,
        traceback=HOSTILE,
        error=text,
    )
    job = facts(keys, "failed-jobs", "list")[1]["failed_jobs"][0]["id"]
    redrive = ("dead-letters", "redrive", "--scope", text, "--reason", HOSTILE, "--yes")
    for words in (
        ("dead-letters", "list"),
        ("dead-letters", "list", "--rows"),
        ("dead-letters", "show", claim.digest, "--payload", "--traceback"),
        ("dead-letters", "redrive", claim.digest),
        ("dead-letters", "redrive", "--scope", text),
        ("dead-letters", "discard", claim.digest),
        ("dead-letters", "export", "--payload"),
        ("failed-jobs", "list"),
        ("failed-jobs", "show", job, "--payload", "--traceback"),
        redrive,
        ("redrives", "list"),
        ("status",),
    ):
        for form in ("text", "json"):
            _, printed = idem(*words, "--database", keys.alias, "--format", form)
            lines = printed.splitlines()
            assert all(line.isprintable() for line in lines), printed
            assert not any(line.startswith("INJECTED") for line in lines)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["list", "--state", "running"], "failed or review"),
        (["list", "--category", "bad"], "fatal, retryable, manual_review or expected"),
        (["list", "--since", "yesterday"], "write 15m or 2h"),
        (["list", "--since", "0001-01-01T00:00+14:00"], "write 15m or 2h"),
        (["list", "--signature", "a\0"], "NUL or bytes"),
        (["list", "--rows", "--by-signature"], "not allowed with"),
        (["redrive", "--all", "--rate", "0"], "between 1 and"),
        (["redrive", "nonsense"], "is no digest"),
        (["redrive"], "at least one filter, or --all"),
        (["discard"], "at least one filter, or --all"),
        (["discard", "--all", "--task", "x"], "Give filters or --all, not both"),
        (["discard", "--all", "--yes"], "--reason must say why"),
        (["redrive", "--all", "--yes", "--reason", " "], "--reason must say why"),
        (["redrive", "--all", "--arguments", "{}"], "are written"),
        (["redrive", "--all", "--arguments", '{"args": [1]}'], "they are for one dead letter"),
    ],
)
def test_a_wrong_word_is_an_error_with_2_that_says_what_to_write(words: list[str], remedy: str) -> None:
    with pytest.raises(CommandError, match=remedy) as error:
        idem("dead-letters", *words)
    assert error.value.returncode == 2


def test_the_number_of_statements_does_not_depend_on_the_number_of_dead_letters() -> None:
    keys, said = Keys("default"), []
    for _ in range(2):
        many(keys, 100)
        for words in ((), ("--rows",)):
            with CaptureQueriesContext(connections["default"]) as captured:
                facts(keys, "dead-letters", "list", *words)
            said.append(len(captured))
    assert said[:2] == said[2:]
    assert max(said) <= 5


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--rows", "--signature", OTHER),
        ("list", "--task", "shop.none"),
        ("redrive", "--all"),
        ("discard", "--all"),
        ("export",),
    ],
)
def test_dead_letters_are_read_from_their_own_index(words: tuple[str, ...]) -> None:
    fill("default")
    plan = postgresql_plan(lambda _: idem("dead-letters", *words))
    assert {access.index for access in plan if access.table == KEY} == {"idem_key_dead_letters"}


ARGUMENTS = ["x" * 1021, {"list": [[n, str(n)] for n in range(200)]}, None, 1.5, "\u00e9\u202e\n"]
FURTHER = {"deep": {"a": {"b": [True, {"c": "\x1b"}]}}, "big": 2**70}


@everywhere
def test_an_export_has_the_real_arguments_only_where_they_are_asked_for(keys: Keys) -> None:
    message = Message.of("shop.charge", ARGUMENTS, FURTHER, {"task_id": "A"}).encode(limit=10**6)
    real, unknown = dead(keys, message=message, ago=9), dead(keys, message=None)
    documents = {line["digest"]: line for line in exported(keys, "--payload")}
    assert documents[str(real.digest)]["args"] == ARGUMENTS
    assert documents[str(real.digest)]["kwargs"] == FURTHER
    assert documents[str(unknown.digest)]["args"] is None
    assert all("args" not in line and line["task"] == "shop.charge" for line in exported(keys))
    assert [line["digest"] for line in exported(keys, "--until", "5s")] == [str(real.digest)]


def test_an_export_is_json_also_where_the_arguments_are_not() -> None:
    keys = Keys("default")
    dead(keys, message='{"v": 1, "args": [NaN, -Infinity, 1e999, 1.5], "kwargs": {}, "options": {}}')
    (line,) = exported(keys, "--payload")
    assert line["args"] == ["NaN", "-Infinity", "Infinity", 1.5]


@everywhere
def test_an_export_tells_of_every_dead_letter_once_also_of_many_that_ended_together(
    keys: Keys, monkeypatch: Any
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.management.dead_letters.export.PAGE", 7)
    many(keys, 30)
    for signature in ("a", "b", "c"):
        dead(keys, signature=signature)
    found = [line["digest"] for line in exported(keys)]
    assert len(found) == len(set(found)) == 33


class Sink:
    """Keeps nothing of what is printed."""

    def __init__(self) -> None:
        self.lines = 0

    def write(self, text: str) -> None:
        self.lines += text.count("\n")

    def flush(self) -> None:
        pass


@pytest.mark.thorough
@pytest.mark.parametrize("alias", LEDGERS)
def test_an_export_needs_no_more_memory_for_more_dead_letters(alias: str) -> None:
    keys, sink = Keys(alias), Sink()
    many(keys, 300, message=json.dumps({"v": 1, "args": ["x" * 100_000], "kwargs": {}, "options": {}}))
    tracemalloc.start()
    try:
        call_command("idem", "dead-letters", "export", "--payload", database=alias, stdout=sink)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sink.lines == 300
    assert peak < 15 * 2**20, "30 MB were exported"
