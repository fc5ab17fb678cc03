"""Finds MariaDB (or MySQL) and RabbitMQ, runs the tests that need them, and says what it leaves out.

``MYSQL_URL`` and ``RABBITMQ_URL`` name them; else they are looked for at their ports on this machine.
A service that is missing is no failure.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from kombu import Connection

MYSQL = "mysql://root@127.0.0.1:3306/idem"
RABBITMQ = "amqp://guest:guest@127.0.0.1:5672//"

MYSQL_TESTS = (
    "tests/stores/test_mysql.py",
    "tests/concurrency/test_mysql_claimers.py",
    "tests/concurrency/test_mysql_meetings.py",
    "tests/services",
)
RABBITMQ_TESTS = ("tests/death/test_rabbitmq.py", "tests/reserve/test_rabbitmq.py")
BEAT_TESTS = tuple(f"tests/beat/test_{name}.py" for name in ("ticks", "edits", "misfires", "trouble"))
NOTHING_TO_RUN = 5
#: Of those, what takes many minutes: ``make test-all`` runs them where RABBITMQ_URL is set.
LONG = ("tests/reserve/test_rabbitmq.py::test_what_committed_is_done_once_and_what_rolled_back_never[many]",)

#: Seconds that a service has to answer.
PATIENCE = 5.0
#: For who builds a driver against a library, and for who cannot.
HEADERS = "libmariadb-dev or libmysqlclient-dev, and a compiler"


def say(text: str) -> None:
    """Say it before pytest says anything."""
    print(f"test-services: {text}", flush=True)


def is_answering(url: str) -> bool:
    """Whether somebody listens where this URL points to."""
    place = urlsplit(url)
    with suppress(OSError), socket.create_connection((place.hostname or "", place.port or 0), PATIENCE):
        return True
    return False


def has_driver() -> bool:
    """Whether mysqlclient is there, or can be installed."""
    if importlib.util.find_spec("MySQLdb"):
        return True
    say("installing mysqlclient")
    command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-e", ".[mysql]"]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def mysql_problem(url: str) -> str:
    """Why nothing can be shown on this server, or "" ."""
    if not has_driver():
        return f"mysqlclient cannot be installed, which takes {HEADERS}"
    place, driver = urlsplit(url), import_module("MySQLdb")
    account = {"user": unquote(place.username or ""), "password": unquote(place.password or "")}
    try:
        driver.connect(host=place.hostname, port=place.port or 3306, connect_timeout=int(PATIENCE), **account)
    except driver.Error as error:
        return f"it answers {error}"
    return ""


def rabbitmq_problem(url: str) -> str:
    """Why nothing can be shown on this broker, or "" ."""
    try:
        with Connection(url, connect_timeout=PATIENCE) as connection:
            connection.connect()
    except Exception as error:  # noqa: BLE001  whatever the driver says
        return f"it answers {error!r}"
    return ""


def found(name: str, variable: str, usual: str, problem: Any) -> Iterator[str]:
    """The URL of a service that can be used; says what was found."""
    url = os.environ.get(variable) or usual
    shown = url.rpartition("@")[2]
    if variable not in os.environ and not is_answering(url):
        say(f"SKIPPED {name}: {variable} is not set, and nothing listens on {shown}")
    elif why := problem(url):
        say(f"SKIPPED {name} on {shown}: {why}")
    else:
        say(f"{name} on {shown}")
        yield url


def main(words: list[str]) -> int:
    """Run what can be run; pytest's exit code."""
    tests: list[str] = []
    for url in found("MariaDB or MySQL", "MYSQL_URL", MYSQL, mysql_problem):
        os.environ["MYSQL_URL"] = url
        tests += MYSQL_TESTS
    for url in found("RabbitMQ", "RABBITMQ_URL", RABBITMQ, rabbitmq_problem):
        os.environ["RABBITMQ_URL"] = url
        tests += RABBITMQ_TESTS
    if not tests:
        say("nothing was run")
        return 0
    left_out = [word for test in LONG for word in ("--deselect", test)]
    return pytest(*tests, *left_out, *words) or beat_on_mysql(words)


def pytest(*words: str, **environment: str) -> int:
    """Run it; the exit code, where nothing to run is no failure."""
    command = [sys.executable, "-m", "pytest", *words]
    code = subprocess.run(command, check=False, env={**os.environ, **environment}).returncode
    return 0 if code == NOTHING_TO_RUN else code


def beat_on_mysql(words: list[str]) -> int:
    """The tests of beat's ticks, with MariaDB or MySQL as the only database."""
    url = os.environ.get("MYSQL_URL")
    if not url or importlib.util.find_spec("django_celery_beat") is None:
        return 0
    return pytest(*BEAT_TESTS, *words, DATABASE_URL=url, MYSQL_URL="")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
