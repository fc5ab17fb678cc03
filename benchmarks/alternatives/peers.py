"""The queues of others: which packages they are, and which of them are installed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks.throughput.worker import CHILDREN


@dataclass(frozen=True)
class Peer:
    """One package, and the table of its jobs; its module here has ``sender()``, and ``work()``, its worker.

    So many ``processes`` of the worker run two jobs at a time.
    """

    package: str
    table: str
    processes: int = 1
    #: Apps that Django must know.
    apps: tuple[str, ...] = ()

    @property
    def installed(self) -> bool:
        """Whether it can be run here."""
        return find_spec(self.package.replace("-", "_")) is not None

    @property
    def module(self) -> Any:
        """Its module, once Django is set up."""
        return import_module(f"{__package__}.by_{self.package.replace('-', '_')}")


PEERS = {
    peer.package: peer
    for peer in (
        Peer("procrastinate", "procrastinate_jobs", apps=("procrastinate.contrib.django",)),
        Peer("pgqueuer", "pgqueuer"),
        Peer(
            "django-tasks-db",
            "django_tasks_database_dbtaskresult",
            CHILDREN,
            ("django_tasks", "django_tasks_db"),
        ),
    )
}
INSTALLED = [peer for peer in PEERS.values() if peer.installed]
#: For people, one line each.
MISSING = [
    f"{peer.package} is left out: pip install {peer.package}" for peer in PEERS.values() if not peer.installed
]
