"""What the checks read of a project: its Celery app, its tasks and its brokers. Touches no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from celery.local import maybe_evaluate
from django.db import connections

from ...conf import settings
from ...exceptions import ConfigurationError
from ...identity.text import harmless

REDIS = frozenset({"redis", "rediss", "redis+socket", "sentinel", "valkey", "valkeys"})
AMQP = frozenset({"amqp", "amqps", "pyamqp", "librabbitmq"})
LOOPBACK = frozenset({"", "localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address, without its password and without its options."""

    scheme: str
    host: str
    port: int | None
    path: str
    user: str

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return harmless(f"{self.scheme}://{self.host}{port}{self.path}")

    @property
    def is_local(self) -> bool:
        """Whether the server is on this host, as far as its name says."""
        return self.host in LOOPBACK or self.scheme.endswith("+socket")


def addresses(given: object) -> list[Address]:
    """The addresses of a broker setting: one URL, several with ``;`` between, or a list."""
    urls = [str(each) for each in given] if isinstance(given, list | tuple) else str(given or "").split(";")
    return [_address(url.strip()) for url in urls if url.strip()]


def _address(url: str) -> Address:
    scheme, _, rest = url.partition("://")
    try:
        parts = urlsplit(f"//{rest}")
        if "@" in f"{parts.path}{parts.query}":  # a password with a / in it: nothing of it is shown
            return Address(scheme.lower(), "", None, "", "")
        return Address(scheme.lower(), parts.hostname or "", parts.port, parts.path, parts.username or "")
    except ValueError:  # as above
        return Address(scheme.lower(), "", None, "", "")


@dataclass(frozen=True)
class Project:
    """A Celery app and its Django settings, as this process has them."""

    app: Celery

    @property
    def conf(self) -> Any:
        """Celery's settings."""
        return self.app.conf

    @cached_property
    def tasks(self) -> list[Any]:
        """The project's own tasks by name, guarded or not."""
        found = sorted(set(map(maybe_evaluate, self.app.tasks.values())), key=lambda task: str(task.name))
        return [task for task in found if not str(task.name).startswith(("celery.", "django_idempotent_"))]

    @cached_property
    def guarded(self) -> list[Any]:
        """The tasks whose options were read."""
        return [task for task in self.tasks if hasattr(task, "idempotency_policy")]

    @cached_property
    def brokers(self) -> list[Address]:
        """Where messages are written to and read from, each once."""
        urls = (self.conf.broker_url, self.conf.broker_write_url, self.conf.broker_read_url)
        return list(dict.fromkeys(each for url in urls for each in addresses(url)))

    def brokers_of(self, schemes: frozenset[str]) -> list[Address]:
        """The brokers of one kind."""
        return [each for each in self.brokers if each.scheme in schemes]

    @property
    def is_on_redis(self) -> bool:
        """Whether messages go over Redis or Valkey."""
        return bool(self.brokers_of(REDIS))

    @property
    def is_on_amqp(self) -> bool:
        """Whether messages go over RabbitMQ."""
        return bool(self.brokers_of(AMQP))

    @cached_property
    def transport(self) -> Mapping[str, Any]:
        """Celery's ``broker_transport_options``."""
        return self.conf.broker_transport_options or {}

    @cached_property
    def alias(self) -> str | None:
        """The ledger's database; None where the settings cannot be read, which E002 says."""
        try:
            return settings().database
        except ConfigurationError:
            return None

    @cached_property
    def ledger(self) -> Mapping[str, Any]:
        """The entry of ``DATABASES`` that the ledger is in, with Django's defaults; empty without one."""
        return {} if self.alias is None else connections[self.alias].settings_dict

    @cached_property
    def vendor(self) -> str | None:
        """The kind of the ledger's database."""
        return None if self.alias is None else connections[self.alias].vendor

    @property
    def queues(self) -> Iterator[Any]:
        """The declared queues, and the default one."""
        return iter(self.app.amqp.queues.values())
