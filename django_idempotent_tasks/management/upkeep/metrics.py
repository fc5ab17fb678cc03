"""``idem metrics``: prints the metrics for Prometheus, or serves them beside a worker."""

from __future__ import annotations

import os
import signal
import threading
from importlib.util import find_spec
from pathlib import Path

from ...ledger.stores import LedgerStore
from ..cli.report import Options, Report, Say, could_not_run

_STOPPING = (signal.SIGTERM, signal.SIGINT)


def metrics(_store: LedgerStore, options: Options, say: Say) -> Report:
    """Print the text format once, or serve it until SIGTERM."""
    if find_spec("prometheus_client") is None:
        raise could_not_run("prometheus_client is not installed: pip install prometheus-client.")
    from ...metrics.prometheus import DIRECTORY, exposition  # noqa: PLC0415  only here is the library needed

    shared = os.environ.get(DIRECTORY)
    if shared and not Path(shared).is_dir():
        raise could_not_run(f"{DIRECTORY} names {shared}, which is no directory: make it, as for workers.")
    if options["serve"] is None:
        text = exposition().decode()
        return Report({"metrics": text}, text.splitlines())
    address, port = options["serve"]
    return _serve(address, port, say)


def _serve(address: str, port: int, say: Say) -> Report:
    from ...metrics.prometheus import serve  # noqa: PLC0415  as above

    stopped = threading.Event()
    for number in _STOPPING:
        signal.signal(number, lambda *_: stopped.set())
    try:
        stop = serve(address, port)
    except OSError as error:
        raise could_not_run(f"Cannot listen on {address}:{port} ({error}): give --serve another.") from error
    say(f"Serving metrics on http://{address}:{port}/metrics until SIGTERM.")
    stopped.wait()
    stop()
    return Report({"served": f"{address}:{port}"}, ["Stopped."])
