"""One worker of one subject, as a program: its words are those of :func:`main`."""

from __future__ import annotations

import json
import os
import sys

from benchmarks.crash_table.places import BROKER, ledger_url, redis_url
from benchmarks.crash_table.subjects import BY_NAME
from benchmarks.machine.environment import set_role


def main(name: str, hostname: str, children: str, transport: str) -> None:
    """Run until told to stop; ``transport`` has the broker's transport options as JSON."""
    subject = BY_NAME[name]
    # A peer's worker does not even import the package.
    set_role(guarded=subject.ours, kept=True)
    os.environ[BROKER] = redis_url(subject)
    if subject.ours:
        os.environ["DATABASE_URL"] = ledger_url(subject)
    import django  # noqa: PLC0415  it reads what was just set

    django.setup()
    from benchmarks.crash_table.app import make_app  # noqa: PLC0415

    app = make_app(subject, json.loads(transport))
    app.set_current()
    quiet = ["--without-mingle", "--without-gossip", "--without-heartbeat", "--loglevel=INFO"]
    pool = ["--pool=prefork", f"--concurrency={children}"]
    app.worker_main(["worker", f"--hostname={hostname}@crash", *pool, *quiet])


if __name__ == "__main__":
    main(*sys.argv[1:])
