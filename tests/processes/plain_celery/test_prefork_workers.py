"""What a prefork worker does with a message whose body ends, dies or is stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.processes.plain_celery.conftest import VERSION
from tests.processes.plain_celery.workers import Stage, WorkerProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A queue of its own."""
    url = os.environ.get("CELERY_BROKER_URL", "")
    if not url.startswith("redis"):
        pytest.skip("needs Redis")
    return Stage(tmp_path_factory.mktemp("contract"), url)


@pytest.fixture(scope="module")
def worker(stage: Stage) -> Iterator[WorkerProcess]:
    """A worker that the tests share; each leaves it alive."""
    with stage.worker("shared") as worker:
        worker.wait_until_ready()
        yield worker


def test_the_parent_is_told_of_a_lost_child_before_the_message_goes_back(
    stage: Stage, worker: WorkerProcess
) -> None:
    call = stage.send("kill")
    stage.notes.wait_for("started", call, count=2)
    stage.wait_until_empty()

    (told,) = stage.notes.read("request failed", call)
    assert told["error"] == "WorkerLostError"
    assert (told["pid"], told["child_lives"]) == (worker.process.pid, False)
    assert (told["waiting"], told["unacknowledged"]) == (0, 1)
    assert told["child"] == stage.notes.read("started", call)[0]["pid"]
    assert stage.starts(call) == [False, True]
    assert stage.notes.read("task failed", call) == []


#: Since 5.7 the task's own on_failure is called for a hard time limit, in the parent.
TELLS_THE_TASK = {"5.6": False, "5.7": True}


def test_the_parent_is_told_of_a_hard_time_limit_while_the_child_lives(
    stage: Stage, worker: WorkerProcess
) -> None:
    call = stage.send("last", time_limit=1)
    told = stage.notes.wait_for("request failed", call)
    stage.wait_until_empty()

    assert (told["error"], told["child_lives"]) == ("TimeLimitExceeded", True)
    assert (told["waiting"], told["unacknowledged"]) == (0, 1)
    assert told["pid"] == worker.process.pid
    assert stage.starts(call) == [False]
    failed = [(entry["error"], entry["pid"]) for entry in stage.notes.read("task failed", call)]
    assert failed == [("TimeLimitExceeded", worker.process.pid)] * TELLS_THE_TASK[VERSION]


@pytest.mark.usefixtures("worker")
def test_a_hard_time_limit_that_acknowledges_nothing_puts_the_message_back(stage: Stage) -> None:
    call = stage.send("last", task="contract.unacked_on_timeout", time_limit=1)
    stage.notes.wait_for("started", call, count=2)
    stage.wait_until_empty()
    assert stage.starts(call) == [False, True]


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("how", ["ignore", "reject", "raise"])
def test_the_message_is_gone_after(stage: Stage, how: str) -> None:
    call = stage.send(how)
    stage.notes.wait_for("started", call)
    stage.wait_until_empty()
    assert stage.starts(call) == [False]


@pytest.mark.usefixtures("worker")
def test_a_reject_with_requeue_comes_back_at_once_as_a_redelivery(stage: Stage) -> None:
    call = stage.send("requeue")
    again = stage.notes.wait_for("started", call, count=2)
    stage.wait_until_empty()
    assert stage.starts(call) == [False, True]
    assert again["at"] - stage.notes.read("started", call)[0]["at"] < 1


#: 5.7 treats an exit of the body as a lost child; before, it failed the task and acknowledged the message.
STARTS_AFTER_EXIT = {"5.6": [False], "5.7": [False, True]}


@pytest.mark.usefixtures("worker")
def test_an_exit_of_the_body_ends_its_process_and_is_no_ordinary_failure(stage: Stage) -> None:
    call = stage.send("exit")
    expected = STARTS_AFTER_EXIT[VERSION]
    stage.notes.wait_for("started", call, count=len(expected))
    stage.wait_until_empty()
    assert stage.starts(call) == expected


@pytest.mark.usefixtures("worker")
def test_a_child_that_gets_sigterm_raises_system_exit_in_the_body_and_says_so(stage: Stage) -> None:
    call = stage.send("stop")
    assert stage.notes.wait_for("stopped", call)["told"] is True
    stage.wait_until_empty()


def test_a_revoked_call_is_reported_in_the_parent_with_its_header_and_arguments(
    stage: Stage, worker: WorkerProcess
) -> None:
    call = stage.send("last")
    stage.notes.wait_for("started", call)
    stage.sender.control.revoke(call, terminate=True, signal="SIGKILL")

    told = stage.notes.wait_for("revoked", call)
    assert (told["pid"], told["header"], told["args"], told["expired"]) == (
        worker.process.pid,
        {"how": "last"},
        ["last"],
        False,
    )
    stage.wait_until_empty()
    assert stage.starts(call) == [False]


def test_a_memory_error_of_the_body_ends_the_worker_and_the_message_stays(
    tmp_path_factory: pytest.TempPathFactory, stage: Stage
) -> None:
    """The reason why MemoryError is turned into an ordinary error before Celery sees it."""
    own = Stage(tmp_path_factory.mktemp("memory"), stage.broker_url)
    with own.worker("memory") as worker:
        call = own.send("memory")
        own.notes.wait_for("started", call, within=60)
        assert worker.wait() != 0
    assert not own.is_empty()


def test_worker_init_is_sent_when_the_task_modules_are_loaded(stage: Stage, worker: WorkerProcess) -> None:
    told = next(entry for entry in stage.notes.read("worker_init") if entry["pid"] == worker.process.pid)
    assert set(told["tasks"]) == {"contract.ending", "contract.unacked_on_timeout"}


def test_only_an_exit_raised_after_the_setup_stops_a_worker(
    tmp_path_factory: pytest.TempPathFactory, stage: Stage
) -> None:
    own = Stage(tmp_path_factory.mktemp("setup"), stage.broker_url)
    with (
        own.worker("exiting", {"CONTRACT_AFTER_SETUP": "exit"}) as exiting,
        own.worker("failing", {"CONTRACT_AFTER_SETUP": "error"}) as failing,
    ):
        assert exiting.wait() == 3
        assert " ready." not in exiting.text()
        failing.wait_until_ready()


def test_djangos_connections_are_closed_around_tasks_by_one_method_and_after_a_fork_by_another(
    tmp_path_factory: pytest.TempPathFactory, stage: Stage
) -> None:
    own = Stage(tmp_path_factory.mktemp("django"), stage.broker_url)
    with own.worker("django", {"DJANGO_SETTINGS_MODULE": "tests.support.settings"}) as worker:
        worker.wait_until_ready()
        call = own.send("finish")
        child = own.notes.wait_for("started", call)["pid"]
        own.wait_until_empty()

    def closings(name: str) -> int:
        return sum(entry["pid"] == child for entry in own.notes.read(name))

    eventually(lambda: closings("close_database") == 2, "closed before and after the task")
    assert closings("_close_database") == 1
