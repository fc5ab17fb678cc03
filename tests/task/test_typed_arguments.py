"""A project's mypy, with the plugin: a call that does not fit the body is found before it is made."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

PROJECT = """
from typing import Any

from celery import Celery, shared_task
from pydantic import BaseModel

from django_idempotent_tasks import IdempotentTask, IdempotentTaskMixin

app = Celery("shop")


@shared_task(base=IdempotentTask, key="order_id")
def charge(order_id: int, amount: str) -> str:
    return amount


@app.task(base=IdempotentTask, bind=True, key="order_id", reserve=True)
def ship(self: IdempotentTask, order_id: int) -> str:
    return self.idempotency.key


class Ours(IdempotentTask):
    lease = 30


@shared_task(base=Ours, key="order_id")
def pack(order_id: int) -> None: ...


class Order(BaseModel):
    number: int


@shared_task(base=IdempotentTask, pydantic=True)
def wrap(order: Order) -> None: ...


BOUND = True
OPTIONS: dict[str, Any] = {"bind": True}


@shared_task(base=IdempotentTask, bind=BOUND)
def post(self: Any, order_id: int) -> None: ...


@shared_task(base=IdempotentTask, **OPTIONS)
def file(self: Any, order_id: int) -> None: ...


charge.delay(7, "9.90")
charge.delay(order="x")  # error: Unexpected keyword argument "order"
charge.delay(7)  # error: Missing positional argument "amount"
charge.delay("7", amount="9.90")  # error: Argument 1 to "delay"
charge.si(7, amount=9)  # error: Argument "amount" to "si"
charge(7, amount=9)  # error: Argument "amount" to "__call__"
charge.delay(7, "9.90").get().strip(7)  # error: Argument 1 to "strip"
ship.delay(order_id=7)
ship.delay_on_commit(order_id="7")  # error: Argument "order_id" to "delay_on_commit"
charge.submit((7, "9.90"), idempotency_key="evt_1Nq", scope="tenant-42")
charge.apply_async(kwargs={"order_id": 7, "amount": "9.90"}, idempotency_key="evt_1Nq")
pack.delay(7)
wrap.delay(order={"number": 7})
post.delay(7)
file.delay(7)
"""


def test_a_call_that_does_not_fit_its_body_is_an_error_of_the_type_checker(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROJECT)
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nplugins = django_idempotent_tasks.mypy_plugin\n"
    )
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", "shop.py"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = re.findall(r"^shop.py:(\d+): error: (.*)$", answer.stdout, re.MULTILINE)
    expected = {
        number: line.partition("# error: ")[2]
        for number, line in enumerate(PROJECT.splitlines(), 1)
        if "# error: " in line
    }
    assert {int(number) for number, _words in found} == set(expected), answer.stdout + answer.stderr
    for number, words in found:
        assert words.startswith(expected[int(number)])
