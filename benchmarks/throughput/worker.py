"""One worker of the benchmark: ``python -m benchmarks.throughput.worker NAME``, NAME one of :data:`ROLES`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from benchmarks.machine.environment import set_role

CHILDREN = 2


@dataclass(frozen=True)
class Role:
    """What a worker is: with the package, with its peers or with neither, keeping connections or not."""

    name: str
    guarded: bool = False
    kept: bool = False
    peers: bool = False
    #: With claims that wait for no disk.
    fast: bool = False
    #: With the package of the checkout that BENCH_BEFORE names.
    before: bool = False

    @property
    def hostname(self) -> str:
        """The worker's node name."""
        return f"{self.name}@benchmarks"


PLAIN_KEPT = Role("plain-kept", kept=True)
PLAIN_STOCK = Role("plain-stock")
GUARDED_KEPT = Role("guarded-kept", guarded=True, kept=True)
GUARDED_STOCK = Role("guarded-stock", guarded=True)
PEERS_KEPT = Role("peers-kept", kept=True, peers=True)
GUARDED_FAST = Role("guarded-fast", guarded=True, kept=True, fast=True)
BEFORE_KEPT = Role("before-kept", guarded=True, kept=True, before=True)
ROLES = {
    role.name: role
    for role in (
        PLAIN_KEPT,
        PLAIN_STOCK,
        GUARDED_KEPT,
        GUARDED_STOCK,
        GUARDED_FAST,
        PEERS_KEPT,
        BEFORE_KEPT,
    )
}


def main(name: str) -> None:
    """Run until told to stop. It is given queues to consume from later, once they are filled."""
    role = ROLES[name]
    if role.before:
        sys.path.insert(0, os.environ["BENCH_BEFORE"])
    set_role(guarded=role.guarded, kept=role.kept, peers=role.peers, fast=role.fast)
    from benchmarks.machine.celery import app  # noqa: PLC0415  it reads what was just set

    quiet = ["--without-mingle", "--without-gossip", "--without-heartbeat", "--loglevel=WARNING"]
    pool = ["--pool=prefork", f"--concurrency={CHILDREN}"]
    app.worker_main(["worker", f"--hostname={role.hostname}", f"--queues=idle.{role.name}", *pool, *quiet])


if __name__ == "__main__":
    main(sys.argv[1])
