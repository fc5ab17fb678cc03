"""One worker of a host: ``python -m benchmarks.hosts.worker ROLE HOST CHILDREN``."""

from __future__ import annotations

import sys

from benchmarks.machine.environment import set_role
from benchmarks.throughput.worker import GUARDED_KEPT, PLAIN_KEPT, Role

ROLES = {"plain": PLAIN_KEPT, "guarded": GUARDED_KEPT}


def main(name: str, host: str, children: str) -> None:
    """Run until told to stop. It is told later which queues to consume."""
    role: Role = ROLES[name]
    set_role(guarded=role.guarded, kept=role.kept)
    import benchmarks.hosts.settings  # noqa: F401, PLC0415  it completes the app
    from benchmarks.machine.celery import app  # noqa: PLC0415  it reads what was just set

    quiet = ["--without-mingle", "--without-gossip", "--without-heartbeat", "--loglevel=INFO"]
    pool = ["--pool=prefork", f"--concurrency={children}"]
    app.worker_main(["worker", f"--hostname={name}@{host}", f"--queues=idle.{name}.{host}", *pool, *quiet])


if __name__ == "__main__":
    main(*sys.argv[1:])
