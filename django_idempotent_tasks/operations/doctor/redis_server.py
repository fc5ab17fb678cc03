"""Checks of what a server of Redis or Valkey says of itself (``INFO``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .check import Catalogue, Severity

redis_server = Catalogue("Redis and Valkey")

#: The share of memory or of clients in use above which the server counts as full.
FULL = 0.8
#: The oldest versions that still get corrections.
OLDEST_REDIS, OLDEST_VALKEY = (6, 2), (7, 2)


@redis_server.check(
    "D320",
    Severity.ERROR,
    finds="a `maxmemory-policy` other than `noeviction`",
    why="A full server deletes messages, or the sets that name the queues, without an error.",
    remedy="Set maxmemory-policy noeviction on the server that is the broker.",
)
def _evicts(info: Mapping[str, Any]) -> Iterator[str]:
    policy = info.get("maxmemory_policy")
    if policy and policy != "noeviction":
        yield f"maxmemory_policy is {policy}."


@redis_server.check(
    "D321",
    Severity.WARNING,
    finds="a server without an append-only file",
    why="A restart loses the messages since the last snapshot. Reserved calls are sent again by the sweeper,"
    " all others are lost.",
    remedy="Set appendonly yes, or reserve what must not be lost.",
)
def _forgets(info: Mapping[str, Any]) -> Iterator[str]:
    if info.get("aof_enabled") == 0:
        yield "aof_enabled is 0."


@redis_server.check(
    "D322",
    Severity.ERROR,
    finds="a server whose last write to disk failed",
    why="Redis takes no more writes then (stop-writes-on-bgsave-error), or loses them at the next restart.",
    remedy="Look at the server's log, the free space of its disk, and who may write to its directory.",
)
def _cannot_write(info: Mapping[str, Any]) -> Iterator[str]:
    for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"):
        if info.get(name, "ok") != "ok":
            yield f"{name} is {info[name]}."


@redis_server.check(
    "D323",
    Severity.WARNING,
    finds="a server with more than 80 % of its memory or of its clients in use",
    why="Once it is full, each send is an error (noeviction), or no worker can connect.",
    remedy="Find the queue that grows ('idem status'), give it workers, or raise maxmemory or maxclients.",
)
def _is_full(info: Mapping[str, Any]) -> Iterator[str]:
    for used, most in (("used_memory", "maxmemory"), ("connected_clients", "maxclients")):
        limit = int(info.get(most) or 0)
        if limit and int(info.get(used) or 0) > FULL * limit:
            yield f"{used} is {info[used]} of {limit}."


@redis_server.check(
    "D324",
    Severity.ERROR,
    finds="keys that the server has evicted since its start",
    why="Some of them may have been messages.",
    remedy="Set maxmemory-policy noeviction, and give the cache a server of its own.",
)
def _has_evicted(info: Mapping[str, Any]) -> Iterator[str]:
    if int(info.get("evicted_keys") or 0):
        yield f"evicted_keys is {info['evicted_keys']}."


@redis_server.check(
    "D325",
    Severity.ERROR,
    finds="a Redis Cluster as the broker",
    why="kombu's transport does not know clusters: statements over several keys fail with CROSSSLOT.",
    remedy="Use a single server, or Sentinel.",
)
def _is_a_cluster(info: Mapping[str, Any]) -> Iterator[str]:
    if int(info.get("cluster_enabled") or 0):
        yield "cluster_enabled is 1."


@redis_server.check(
    "D326",
    Severity.ERROR,
    finds="a replica as the broker",
    why="A replica takes no writes, so nothing can be sent.",
    remedy="Name the primary in broker_url, or use sentinel:// URLs.",
)
def _is_a_replica(info: Mapping[str, Any]) -> Iterator[str]:
    if info.get("role") in {"slave", "replica"}:
        yield f"role is {info['role']}."


@redis_server.check(
    "D327",
    Severity.WARNING,
    finds="a server older than Redis 6.2 or Valkey 7.2",
    why="It gets no fixes any more, and the tests of this package do not run on it.",
    remedy="Upgrade the server.",
)
def _is_old(info: Mapping[str, Any]) -> Iterator[str]:
    valkey = info.get("valkey_version")  # its redis_version says 7.2.4 whatever it is
    name, version, oldest = (
        ("Valkey", valkey, OLDEST_VALKEY) if valkey else ("Redis", info.get("redis_version"), OLDEST_REDIS)
    )
    parts = tuple(int(part) for part in str(version or "").split(".")[:2] if part.isdigit())
    if parts and parts < oldest:
        yield f"The server is {name} {version}."
