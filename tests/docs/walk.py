"""Follows the tutorial as a reader does: writes its files, types its commands, kills its worker."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import TUTORIAL, Block, blocks
from tests.support.waiting import eventually

#: What the reader does to have the package; here whoever starts the walk has seen to it.
SETTING_UP = ("python3 -m venv", ". .venv/", "pip install")
#: Seconds for each thing that the tutorial promises.
PATIENCE = 90.0
_PRINTS = re.compile(r"prints `([^`]+)`")


class Astray(Exception):
    """Something is not as the tutorial says."""


@dataclass
class Walk:
    """One reader, in an empty directory; ``scripts`` is where their interpreter and Celery are."""

    directory: Path
    scripts: Path
    worker: subprocess.Popen[bytes] | None = None
    logs: list[Path] = field(default_factory=list)

    def go(self) -> None:
        """From the first block to the last. Raises :class:`Astray` with the page's line."""
        for block, promised in _steps():
            if block.language == "python" and block.file is not None:
                self._write(block)
            elif block.language == "python":
                self._until(block, promised, ["python", "manage.py", "shell", "-v", "0", "-c", block.text])
            else:
                for line in block.text.splitlines():
                    self._type(block, line, promised)

    def kill(self) -> None:
        """The worker, without a word; nothing where none runs."""
        if self.worker is not None and self.worker.poll() is None:
            os.killpg(self.worker.pid, signal.SIGKILL)
            self.worker.wait()

    def _write(self, block: Block) -> None:
        path = self.directory / str(block.file)
        with path.open("a") as file:
            file.write(f"\n{block.text}")

    def _type(self, block: Block, line: str, promised: str | None) -> None:
        if line.startswith(SETTING_UP):
            return
        words = shlex.split(line)
        if words[0] == "pkill":
            self.kill()
        elif words[0] == "celery":
            self._start(block, words, promised)
        else:
            self._until(block, None, words)

    def _start(self, block: Block, words: list[str], promised: str | None) -> None:
        log = self.directory / f"worker-{len(self.logs)}.log"
        self.logs.append(log)
        with log.open("wb") as output:
            self.worker = subprocess.Popen(
                self._found(words), cwd=self.directory, env=self._environment(), start_new_session=True,
                stdout=output, stderr=output,
            )  # fmt: skip
        _wait(lambda: promised is None or promised in log.read_text(), block, log.read_text)

    def _until(self, block: Block, promised: str | None, words: list[str]) -> None:
        """Run a command, and again while it does not print what is promised."""
        answers = []

        def is_as_promised() -> bool:
            answer = subprocess.run(
                self._found(words), cwd=self.directory, env=self._environment(), check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            answers.append(answer.stdout)
            if answer.returncode != 0:
                raise Astray(f"{block.where}: {words} ended with {answer.returncode}:\n{answer.stdout}")
            return promised is None or answer.stdout.strip() == promised

        _wait(is_as_promised, block, lambda: answers[-1])

    def _found(self, words: list[str]) -> list[str]:
        script = self.scripts / words[0]
        return [str(script) if script.exists() else words[0], *words[1:]]

    def _environment(self) -> dict[str, str]:
        """Nothing of a surrounding project's settings, and none of its modules."""
        left_out = ("DJANGO_", "CELERY_", "DATABASE_", "PYTHON")
        return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


@contextmanager
def walking(directory: Path, scripts: Path) -> Iterator[Walk]:
    """A walk whose worker is gone afterwards."""
    walk = Walk(directory, scripts)
    try:
        yield walk
    finally:
        walk.kill()


def _steps() -> Iterator[tuple[Block, str | None]]:
    """Each block of the tutorial, and what the page says, before the next one, that it prints."""
    found = list(blocks(TUTORIAL))
    lines = TUTORIAL.read_text().splitlines()
    for block, following in zip(found, [*found[1:], None], strict=True):
        end = len(lines) if following is None else following.line - 1
        said = _PRINTS.search("\n".join(lines[block.line + block.text.count("\n") : end]))
        yield block, said[1] if said else None


def _wait(look: Callable[[], bool], block: Block, seen: Callable[[], str]) -> None:
    try:
        eventually(look, "as promised", within=PATIENCE, every=0.3)
    except AssertionError as error:
        raise Astray(f"{block.where}: {error}\n{seen()}") from error
