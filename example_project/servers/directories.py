"""Directories for servers, made so that no permission of a directory that is not ours has to change."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Tried after what TMPDIR says. mkdtemp makes an unguessable name, so a shared place does no harm.
USUAL = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108


class ServerUnavailable(RuntimeError):
    """A server could not be found or started. The message says what to install, or what its log says."""


@dataclass(frozen=True)
class Account:
    """The system account that the servers run under when their owner is root."""

    uid: int
    gid: int


def server_account() -> Account | None:
    """Give an unprivileged account when we are root, as which PostgreSQL refuses to run; else None."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        message = "running as root, and there is no account 'nobody' to run the servers under"
        raise ServerUnavailable(message) from None
    return Account(entry.pw_uid, entry.pw_gid)


def others_may_enter(directory: Path) -> bool:
    """Tell whether an unprivileged account can reach what lies in the directory."""
    # As written and as resolved: a symbolic link may lie in a closed directory, or point into one.
    ways = (directory.absolute(), directory.resolve())
    return all(path.stat().st_mode & stat.S_IXOTH for way in ways for path in (way, *way.parents))


def account_may_run(program: Path) -> bool:
    """Tell whether the servers' account can run the program where it lies."""
    readable = stat.S_IROTH | stat.S_IXOTH
    allowed = program.stat().st_mode & readable == readable and others_may_enter(program.parent)
    return allowed or server_account() is None


def fresh_directory(name: str, parent: Path | None = None) -> Path:
    """Make a new directory, in the parent or the first usable temporary directory.

    The servers' account can pass through it; nobody else can list it. As root, a parent that does not
    let that account pass is refused, never opened.
    """
    account = server_account()
    candidates = [parent] if parent else [Path(tempfile.gettempdir()), *USUAL]
    for candidate in candidates:
        if candidate.is_dir() and (account is None or others_may_enter(candidate)):
            directory = Path(tempfile.mkdtemp(prefix=f"idem-{name}-", dir=candidate)).resolve()
            if account is not None:
                directory.chmod(0o711)
            return directory
    message = f"no directory that the account 'nobody' may enter; tried {', '.join(map(str, candidates))}"
    raise ServerUnavailable(message)


def owned_directory(directory: Path) -> Path:
    """Make the directory for the servers' account alone."""
    directory.mkdir(mode=0o700)
    account = server_account()
    if account is not None:
        os.chown(directory, account.uid, account.gid)
    return directory


def copy_readable(sources: Iterable[Path], target: Path) -> None:
    """Copy files and trees into the new directory ``target``, readable by the servers' account.

    That account cannot enter an environment under a closed home directory; the servers then run from
    a copy of their binaries.
    """
    target.mkdir(parents=True)
    for source in sources:
        if source.is_dir():
            shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("*.a", "doc", "pgxs"))
        else:
            shutil.copyfile(source, target / source.name)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)
