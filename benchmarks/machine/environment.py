"""The variables that tell the benchmark's processes what they are, and where the servers are."""

from __future__ import annotations

import os

SETTINGS = "benchmarks.machine.settings"


def set_servers(servers: dict[str, str], *, checked: bool) -> None:
    """Name the servers and the settings, for this process and all that it starts."""
    os.environ.update(servers, DJANGO_SETTINGS_MODULE=SETTINGS, BENCH_CHECKED=str(int(checked)))


def set_role(*, guarded: bool, kept: bool, peers: bool = False, fast: bool = False) -> None:
    """Say what this process is; to be called before anything reads the settings."""
    flags = {"BENCH_GUARDED": guarded, "BENCH_KEPT": kept, "BENCH_PEERS": peers, "BENCH_FAST": fast}
    os.environ.update({name: str(int(flag)) for name, flag in flags.items()})


def set_beat() -> None:
    """Say that this process measures beat, which needs an app of its own."""
    os.environ["BENCH_BEAT"] = "1"


def has_beat() -> bool:
    """Whether this process has django-celery-beat."""
    return os.environ.get("BENCH_BEAT", "0") == "1"


def is_guarded() -> bool:
    """Whether this process has the package."""
    return _flag("BENCH_GUARDED")


def has_peers() -> bool:
    """Whether this process has the tasks of the peers."""
    return _flag("BENCH_PEERS")


def is_kept() -> bool:
    """Whether this process keeps its database connections."""
    return _flag("BENCH_KEPT")


def is_fast() -> bool:
    """Whether this process's claims wait for no disk."""
    return os.environ.get("BENCH_FAST", "0") == "1"


def is_checked() -> bool:
    """Whether kept connections are tested before they are used."""
    return _flag("BENCH_CHECKED")


def _flag(name: str) -> bool:
    return os.environ.get(name, "1") == "1"
