"""Reads the files of ``deploy/``: the units, the manifests, the services, and the commands in all of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("shop-*.*"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COMPOSE = DEPLOY / "compose" / "compose.yaml"
RABBITMQ = DEPLOY / "compose" / "compose.rabbitmq.yaml"
#: What Compose puts into its file, and refuses to do without.
ENVIRONMENT = {"POSTGRES_PASSWORD": "p", "RABBITMQ_PASSWORD": "r", "SECRET_KEY": "s"}

Command = tuple[str, ...]


def settings_of(unit: Path) -> list[tuple[str, str]]:
    """The lines of a unit, in order: a name may come more than once."""
    lines = (line for line in unit.read_text().splitlines() if line[:1] not in {"", "#", "["})
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def objects() -> list[dict[str, Any]]:
    """All objects of the manifests for Kubernetes."""
    return [each for manifest in MANIFESTS for each in yaml.safe_load_all(manifest.read_text())]


def services(path: Path = COMPOSE) -> dict[str, dict[str, Any]]:
    """The services of a Compose file, by name."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())["services"]
    return found


def pooler() -> dict[str, str]:
    """What PgBouncer is told."""
    parser = ConfigParser()
    parser.read(DEPLOY / "compose" / "pgbouncer.ini")
    return dict(parser["pgbouncer"])


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The specification of each pod, with the name of the object that makes it."""
    for each in objects():
        if "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def containers() -> Iterator[dict[str, Any]]:
    """All containers of all pods."""
    for _name, pod in pods():
        yield from (*pod.get("initContainers", ()), *pod["containers"])


def commands() -> Iterator[tuple[str, Command]]:
    """Each program that is started, with where it stands; the scripts of a shell taken apart."""
    for place, words in (*_of_units(), *_of_containers(), *_of_services()):
        for command in _simple(words):
            yield place, command


def _of_units() -> Iterator[tuple[str, list[str]]]:
    for unit in UNITS:
        for name, value in settings_of(unit):
            if name.startswith("Exec"):
                yield unit.name, shlex.split(value.replace("$$", "$"))


def _of_containers() -> Iterator[tuple[str, list[str]]]:
    for container in containers():
        yield container["name"], container["command"]
        for kind in ("startupProbe", "livenessProbe"):
            if kind in container:
                yield f"{container['name']}, {kind}", container[kind]["exec"]["command"]


def _of_services() -> Iterator[tuple[str, list[str]]]:
    for path in (COMPOSE, RABBITMQ):
        for name, service in services(path).items():
            yield name, shlex.split(service.get("command", ""))
            yield f"{name}, healthcheck", _test_of(service)


def _test_of(service: dict[str, Any]) -> list[str]:
    kind, *words = service.get("healthcheck", {}).get("test", ["NONE"])
    return ["sh", "-c", words[0].replace("$$", "$")] if kind == "CMD-SHELL" else words


def _simple(words: Sequence[str]) -> Iterator[Command]:
    if not words:
        return
    program = Path(words[0]).name
    if program == "sh":
        for part in re.split(r";|&&|\|\||\bdo\b", words[2]):
            yield from _simple(shlex.split(part))
    else:
        yield program, *words[1:]
