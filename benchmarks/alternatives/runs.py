"""The same job run, two at a time each: by workers of Celery, and by those of other queues."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from django.db.models import Max, Min

from benchmarks.alternatives.job import arguments
from benchmarks.alternatives.peers import Peer
from benchmarks.alternatives.sender import Sender
from benchmarks.alternatives.taken import Taken
from benchmarks.machine.cpu import server_seconds
from benchmarks.models import Work
from benchmarks.throughput.fleet import BrokenBenchmark
from benchmarks.throughput.rounds import Track
from benchmarks.throughput.variants import BY_LABEL
from example_project.demo.programs import Program, wait_until
from example_project.servers import Server

#: Variants of the throughput part, by what they are called here.
CELERY = {"plain Celery": "plain", "ours, atomic": "atomic", "ours, .complete()": "complete"}
LONGEST = 300.0
_numbers = count(1)


def by_celery(track: Track, name: str) -> Taken:
    """A round of a variant of the throughput part."""
    measured = track.run(BY_LABEL[CELERY[name]], f"alternatives/{next(_numbers)}")
    return Taken(1 / measured.rate, (measured.cpu or 0.0) / 1000)


def by_peer(peer: Peer, sender: Sender, server: Server, logs: Path, jobs: int) -> Taken:
    """A queue worked off by a worker that ends then; its start is not counted."""
    batch = f"{peer.package}-{next(_numbers)}"
    sender.many(arguments(number, batch) for number in range(jobs))
    busy = server_seconds(server.pid) or 0.0
    programs = [
        Program(f"{batch}-{number}", ["benchmarks.alternatives.worker", peer.package], logs)
        for number in range(peer.processes)
    ]
    wait_until(lambda: not any(program.running for program in programs), seconds=LONGEST)
    for program in programs:
        program.kill()
    busy = (server_seconds(server.pid) or 0.0) - busy
    rows = Work.objects.filter(batch=batch)
    if rows.count() != jobs:
        raise BrokenBenchmark("\n".join([f"{rows.count()} of {jobs} jobs ran", *programs[0].last_lines()]))
    times = rows.aggregate(first=Min("at"), last=Max("at"))
    seconds = (times["last"] - times["first"]).total_seconds()
    spent = sum(float(program.last_lines()[-1]) for program in programs)
    return Taken(seconds / (jobs - 1), (busy + spent) / jobs)
