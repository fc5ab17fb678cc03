"""A key whose stored texts nobody can read any more: the command, the job and the result still answer."""

from __future__ import annotations

from typing import Any

import pytest
from celery import current_app
from django.http import JsonResponse

from django_idempotent_tasks.exceptions import ResultNotStored
from django_idempotent_tasks.http import jobs
from django_idempotent_tasks.ledger.progress import LIMIT
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.sending.result import AcceptedResult
from django_idempotent_tasks.states import State
from tests.support.keys import Keys, facts, idem

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])

WRONG = {
    "nested beyond the parser": "[" * 20_000,
    "nested to the parser's edge": "[" * 900 + "]" * 900,
    "truncated": '{"done": 3, "to',
    "not a number": '{"done": NaN, "total": 3, "note": ""}',
    "a hook that raises": '{"__type__": "decimal", "__value__": "x"}',
    "an escaped NUL and half a character": '["\\u0000", "\\ud800"]',
}


@pytest.fixture(params=WRONG)
def key(request: pytest.FixtureRequest) -> IdempotencyKey:
    """A key with such a text wherever JSON is stored."""
    keys, text = Keys("default"), WRONG[request.param]
    claim = keys.completed()
    rows = IdempotencyKey.objects.filter(digest=claim.digest)
    rows.update(message=text, result=text, progress=text[:LIMIT])
    return rows.get()


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.RUNNING])
def test_the_command_and_the_job_answer(key: IdempotencyKey, state: State) -> None:
    IdempotencyKey.objects.filter(pk=key.pk).update(state=state)
    for words in (("show", str(key.digest), "--payload"), ("list",)):
        assert idem("keys", *words)[0] == 0
        assert facts(Keys("default"), "keys", *words)[0] == 0
    key.refresh_from_db()
    assert JsonResponse(jobs.document(key)).status_code == 200


@pytest.mark.parametrize("wrong", ["nested beyond the parser", "truncated", "a hook that raises"])
def test_a_result_that_cannot_be_read_is_as_one_that_was_not_stored(wrong: str) -> None:
    claim = Keys("default").completed()
    IdempotencyKey.objects.filter(digest=claim.digest).update(result=WRONG[wrong])
    result: Any = AcceptedResult(claim.call.task_id, app=current_app)
    assert result.state == "SUCCESS"
    with pytest.raises(ResultNotStored, match=r"is completed\. The stored result is not readable \("):
        result.get(timeout=1)
