"""Asks servers that may not answer, each in a thread of its own, and waits for none longer than agreed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from django.conf import settings as django_settings
from django.db import connections

from ...identity.text import harmless

#: How many characters of a server's error are shown.
SHOWN = 200
#: What passwords are replaced with.
HIDDEN = "***"


@dataclass(slots=True)
class Answers:
    """What each server answered by its name, and why the others did not."""

    given: dict[str, Any] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)


def ask_all(questions: Mapping[str, Callable[[], Any]], *, within: float, secrets: list[str]) -> Answers:
    """Ask all at a time. A question that hangs keeps its thread, which ends with the process."""
    got = Answers()
    done: dict[str, tuple[Any, BaseException | None]] = {}
    threads = {name: _begin(name, question, done) for name, question in questions.items()}
    end = time.monotonic() + within
    for name, thread in threads.items():
        thread.join(max(end - time.monotonic(), 0))
        if name not in done:
            got.silent[name] = f"No answer within {within:g} s."
            continue
        answer, error = done[name]
        if error is None:
            got.given[name] = answer
        else:
            got.silent[name] = told(error, secrets)
    return got


def _begin(
    name: str, question: Callable[[], Any], done: dict[str, tuple[Any, BaseException | None]]
) -> threading.Thread:
    def ask() -> None:
        try:
            answer: tuple[Any, BaseException | None] = question(), None
        except Exception as error:  # noqa: BLE001  drivers and transports have their own errors
            answer = None, error
        finally:
            connections.close_all()  # of this thread
        done[name] = answer

    thread = threading.Thread(target=ask, name=f"idempotent-doctor-{name}", daemon=True)
    thread.start()
    return thread


def told(error: BaseException, secrets: list[str]) -> str:
    """An error of a server on one line, without any password of the settings."""
    text = (str(error).strip().splitlines() or [""])[0]
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return f"{type(error).__name__}: {harmless(text)[:SHOWN]}".rstrip(": ")


def secrets_of(conf: Any) -> list[str]:
    """The passwords in URLs and in DATABASES, as written and as meant, the longest first."""
    urls = [conf.broker_url, conf.broker_write_url, conf.broker_read_url, conf.result_backend]
    urls += [cache.get("LOCATION", "") for cache in django_settings.CACHES.values()]
    found = {str(database.get("PASSWORD") or "") for database in django_settings.DATABASES.values()}
    for given in urls:
        for url in given if isinstance(given, list | tuple) else str(given or "").split(";"):
            found |= _secrets_in(str(url))
    return sorted((each for each in found if each), key=len, reverse=True)


def _secrets_in(url: str) -> set[str]:
    user, at, _host = url.partition("://")[2].rpartition("@")
    password = user.partition(":")[2] if at else ""
    return {user, unquote(user), password, unquote(password)} if password else set()
