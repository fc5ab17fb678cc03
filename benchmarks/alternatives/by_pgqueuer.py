"""pgqueuer: the job as an entry point, sent on Django's own connection."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from django.db import connection
from psycopg import AsyncConnection

from benchmarks.alternatives.job import write
from benchmarks.alternatives.sender import Arguments, Sender

_drivers: Any = import_module("pgqueuer.adapters.drivers.psycopg")
_queries: Any = import_module("pgqueuer.queries")
_NAME = "alternatives.write"


def sender() -> Sender:
    """How it takes jobs, once its tables are there."""
    asyncio.run(_install())
    connection.ensure_connection()
    queries = _queries.SyncQueries(_drivers.SyncPsycopgDriver(connection.connection))

    def many(jobs: Iterable[Arguments]) -> None:
        payloads = [_payload(arguments) for arguments in jobs]
        queries.enqueue([_NAME] * len(payloads), payloads, [0] * len(payloads))

    def refuse(arguments: Arguments) -> None:
        payload = _payload(arguments | {"batch": "refused"})
        queries.enqueue(_NAME, payload, dedupe_key="taken", on_conflict="skip")

    return Sender(lambda arguments: queries.enqueue(_NAME, _payload(arguments)), many, refuse)


def work() -> None:
    """Work off the queue."""
    asyncio.run(_work())


def _payload(arguments: Arguments) -> bytes:
    return json.dumps(arguments).encode()


async def _connect() -> Any:
    return await AsyncConnection.connect(os.environ["DATABASE_URL"], autocommit=True)


async def _install() -> None:
    async with await _connect() as opened:
        await _queries.Queries.from_psycopg_connection(opened).install()


async def _work() -> None:
    async with await _connect() as opened:
        queries = _queries.Queries.from_psycopg_connection(opened)
        manager: Any = import_module("pgqueuer.qm").QueueManager(queries)

        @manager.entrypoint(_NAME)  # type: ignore[untyped-decorator]
        async def run(job: Any) -> None:
            await asyncio.to_thread(write, **json.loads(job.payload))

        drain = import_module("pgqueuer.types").QueueExecutionMode.drain
        await manager.run(mode=drain)
