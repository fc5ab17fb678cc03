"""Counts the connections to the database of each kind of process, as Linux shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from example_project.demo.programs import Program

ESTABLISHED = "01"


class Connections:
    """The most that a process of each role has had open whenever somebody looked."""

    def __init__(self, programs: Mapping[str, Program], port: int) -> None:
        self._programs = programs
        self._port = port
        self.most: dict[str, int] = {}

    def look(self) -> None:
        """Count now."""
        for name, program in self._programs.items():
            role = name.partition("@")[0]
            pools = program.children() if "@" in name else []
            for pid in pools:
                self._note(f"{role} worker, a child", pid)
            self._note(f"{role} worker, the parent" if "@" in name else role, program.pid)

    def _note(self, role: str, pid: int) -> None:
        with suppress(OSError):
            self.most[role] = max(self.most.get(role, 0), connections(pid, self._port))


def connections(pid: int, port: int) -> int:
    """How many connections to this port a process has open."""
    table = Path(f"/proc/{pid}/net/tcp").read_text()
    inodes = sockets_to(table, port)
    held = Counter(str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink())
    return sum(f"socket:[{inode}]" in held for inode in inodes)


def sockets_to(table: str, port: int) -> set[str]:
    """The inodes of the established connections to a port, of the text of ``/proc/PID/net/tcp``."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {row[9] for row in rows if row[3] == ESTABLISHED and int(row[2].rpartition(":")[2], 16) == port}
