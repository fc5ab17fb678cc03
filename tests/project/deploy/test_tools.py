"""The programs that read the files of ``deploy/`` take them: systemd, the API of Kubernetes, Compose.

Each is skipped aloud where its tool is missing: systemd-analyze of the system, kubernetes-validate and
check-jsonschema of the extra ``deploy``, and Docker's plugin ``compose``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.deploy.files import COMPOSE, DEPLOY, ENVIRONMENT, MANIFESTS, RABBITMQ, UNITS, objects

#: The oldest and the newest whose schemas are asked.
KUBERNETES = ("1.29", "1.35")
#: What the units name of systemd's own.
TARGETS = ("sysinit", "basic", "shutdown", "multi-user", "network-online", "timers", "time-set", "time-sync")
PROGRAMS = ("srv/shop/venv/bin/celery", "srv/shop/venv/bin/python", "usr/bin/systemctl", "bin/sh")

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing: apt-get install systemd"
)
needs_extra = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("kubernetes_validate", "check_jsonschema"))),
    reason="the extra deploy is not installed: pip install -e '.[deploy]'",
)


def _says(*words: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        words, check=False, env={**os.environ, **ENVIRONMENT}, cwd=DEPLOY,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The root directory of a host with the units and what they start."""
    units = tmp_path / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    for unit in UNITS:
        shutil.copy(unit, units)
    for name in TARGETS:
        (units / f"{name}.target").write_text("[Unit]\n")
    for program in PROGRAMS:
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
    return tmp_path


def _verified(host: Path) -> tuple[int, str]:
    """What systemd says of all units; of templates, of one that is made by it."""
    names = [unit.name.replace("@.", "@celery.") for unit in UNITS]
    return _says("systemd-analyze", "verify", f"--root={host}", "--man=no", *names)


@needs_systemd
def test_systemd_takes_the_units(host: Path) -> None:
    assert _verified(host) == (0, "")


@needs_systemd
def test_systemd_would_say_what_is_wrong_with_a_unit(host: Path) -> None:
    unit = host / "etc" / "systemd" / "system" / "shop-worker@.service"
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=mingled"))
    assert "mingled" in _verified(host)[1]


@needs_extra
@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_the_manifests(version: str) -> None:
    import kubernetes_validate  # noqa: PLC0415  of an extra

    for each in objects():
        kubernetes_validate.validate(each, version, strict=True)


@needs_extra
def test_kubernetes_would_say_what_is_wrong_with_a_manifest() -> None:
    import kubernetes_validate  # noqa: PLC0415  of an extra

    wrong = next(each for each in objects() if each["kind"] == "Deployment")
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 90
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[-1], strict=True)


@needs_extra
def test_the_compose_specification_takes_the_files(tmp_path: Path) -> None:
    check = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec")
    assert _says(*check, COMPOSE, RABBITMQ)[0] == 0
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("stop_grace_period: 90s", "stop_graceperiod: 90s"))
    assert "stop_graceperiod" in _says(*check, wrong)[1]


@pytest.mark.parametrize("files", [(COMPOSE,), (COMPOSE, RABBITMQ)], ids=["Valkey", "RabbitMQ"])
def test_docker_takes_the_compose_files(files: tuple[Path, ...]) -> None:
    compose = _compose()
    if compose is None:
        pytest.skip("Docker has no plugin compose here")
    chosen = [word for path in files for word in ("--file", path)]
    assert _says(*compose, *chosen, "config", "--quiet") == (0, "")


def _compose() -> tuple[str, ...] | None:
    for words in (("docker", "compose"), ("docker-compose",)):
        if shutil.which(words[0]) and _says(*words, "version")[0] == 0:
            return words
    return None


def test_there_are_files_of_all_three() -> None:
    assert len(UNITS) > 5
    assert len(MANIFESTS) > 3
