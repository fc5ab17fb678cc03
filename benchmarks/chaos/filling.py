"""Strikes at the disks of a chaos run's servers: full, and full of the database's log."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection
from redis import Redis, RedisError

from benchmarks.chaos.asking import Rest, asking
from benchmarks.chaos.disks import Disk
from benchmarks.chaos.plan import Strike
from benchmarks.chaos.servers import OwnServers, rabbitmqctl
from example_project.servers import Server

#: Segments of the log after which the server must have met its full disk.
SEGMENTS = 600
#: Seconds in which a database that runs must answer, once its disk has room again.
RECOVERS = 10.0
#: Seconds in which a broker whose disk has room again must take messages.
BACK = 30.0
#: What RabbitMQ wants to be free: more than there is, and its default, in bytes.
TOO_MUCH, USUAL = "1000000000000000", "50000000"


def fill(strike: Strike, servers: OwnServers, seconds: float, rest: Rest) -> str:
    """Fill what the strike names, for as long; what was done."""
    act = {
        Strike.DATABASE_DISK_FULL: _fill_database,
        Strike.DATABASE_LOG_FULL: _fill_log,
        Strike.BROKER_DISK_FULL: _fill_broker,
    }[strike]
    return act(servers, seconds, rest)


def _fill_database(servers: OwnServers, seconds: float, rest: Rest) -> str:
    """Let the database's disk be full; start the database again where that has stopped it."""
    disk, server = _of(servers)
    disk.fill()
    try:
        refused = _is_refused("CREATE TABLE chaos_probe AS SELECT 1 AS one")
        rest(seconds)
    finally:
        disk.free()
    end = _back(server)
    return f"filled the database's disk for {seconds} s, and it {end}" if refused else "failed: not full"


def _fill_log(servers: OwnServers, seconds: float, rest: Rest) -> str:
    """Let PostgreSQL write log until its disk is full, which stops it, and start it again."""
    disk, server = _of(servers)
    disk.fill()
    try:
        written = 0
        while written < SEGMENTS and not _is_refused(
            "SELECT pg_logical_emit_message(false, 'chaos', 'x')", "SELECT pg_switch_wal()"
        ):
            written += 1
        rest(seconds)
    finally:
        disk.free()
    end = _back(server)
    return f"filled the database's disk with {written} segments of its log for {seconds} s, and it {end}"


def _fill_broker(servers: OwnServers, seconds: float, rest: Rest) -> str:
    """Let the broker's disk be full, until it takes messages again."""
    if servers.node:
        rabbitmqctl(servers.node, "set_disk_free_limit", TOO_MUCH)
        rest(seconds)
        rabbitmqctl(servers.node, "set_disk_free_limit", USUAL)
        return f"let the broker's disk be full for {seconds} s"
    disk = servers.broker_disk
    if disk is None:
        return ""
    with Redis.from_url(servers.broker_url) as broker:
        disk.fill()
        try:
            refused = _refuses(broker, time.monotonic() + seconds, rest)
            rest(seconds)
        finally:
            disk.free()
        end = time.monotonic() + BACK
        while not _takes(broker) and time.monotonic() < end:
            rest(0.1)
        _write_anew(broker, end, rest)
    return f"filled the broker's disk for {seconds} s" if refused else "failed: the broker took messages"


def _of(servers: OwnServers) -> tuple[Disk, Server]:
    if servers.database_disk is None or servers.database is None:
        msg = "The database has no disk of its own."
        raise LookupError(msg)
    assert isinstance(servers.database, Server)  # noqa: S101  a pair has no such disk
    return servers.database_disk, servers.database


def _back(server: Server) -> str:
    """Wait until a server answers, and start it again where it has stopped or hangs; what it did."""
    did = "stopped"
    if server.running:
        with suppress(DatabaseError), asking(RECOVERS):
            return "went on"
        did = "hung"  # PostgreSQL 18 may, where its recovery has met the full disk
    server.kill()
    server.restart()
    with asking():
        return f"{did} and was started again"


def _is_refused(*statements: str) -> bool:
    """Whether the database does not carry these out; what it does is undone."""
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    except DatabaseError:
        return True
    finally:
        connection.close()
    return False


def _refuses(broker: Redis, until: float, rest: Rest) -> bool:
    while _takes(broker):
        if time.monotonic() > until:
            return False
        rest(0.02)
    return True


def _write_anew(broker: Redis, until: float, rest: Rest) -> None:
    """Let it write a new append-only file, as an operator has to: Valkey may not read the old one again."""
    with suppress(RedisError):
        broker.bgrewriteaof()
        rest(0.1)
        while _is_writing(broker.info("persistence")) and time.monotonic() < until:
            rest(0.1)


def _is_writing(told: Any) -> bool:
    return bool(told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"])


def _takes(broker: Redis) -> bool:
    try:
        return bool(broker.set("chaos-probe", "x" * 5_000))
    except RedisError:
        return False
