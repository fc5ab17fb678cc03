"""``idem doctor``: its exit codes and its three formats; what it finds is in tests/operations/doctor."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery import Celery
from django.core.management import CommandError

from django_idempotent_tasks.management.doctor import examine
from django_idempotent_tasks.management.doctor.sarif import _LEVELS
from django_idempotent_tasks.operations.doctor.check import Severity
from tests.operations.doctor.projects import REDIS, project
from tests.support.keys import idem

#: SARIF 2.1.0: the levels of a result.
LEVELS = {"none", "note", "warning", "error"}


@pytest.fixture(autouse=True)
def app(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Celery:
    """A healthy app; what other tests have declared in this process is silenced."""
    monkeypatch.delenv("CELERY_BROKER_URL")
    found = project(REDIS, guarded={}).app
    monkeypatch.setattr(examine, "project_app", lambda: found)
    _code, printed = idem("doctor", "--format", "json")
    ids = {each["id"] for each in json.loads(printed)["findings"]}
    settings.SILENCED_SYSTEM_CHECKS = [f"django_idempotent_tasks.{each}" for each in ids]
    return found


def _facts(*words: str) -> tuple[int, dict[str, Any]]:
    code, printed = idem("doctor", "--format", "json", *words)
    return code, json.loads(printed)


def test_without_findings_it_ends_with_0_and_says_how_much_it_looked_at() -> None:
    code, printed = idem("doctor")
    assert (code, printed.count("\n")) == (0, 1)
    assert printed.startswith("Nothing found by any of ")
    assert _facts() == (0, {"live": False, "counts": {"error": 0, "warning": 0, "advice": 0}, "findings": []})


def test_an_error_ends_with_1_and_has_why_remedy_and_link(settings: Any) -> None:
    settings.DEBUG = True
    code, printed = idem("doctor")
    assert code == 1
    assert printed.splitlines()[0] == "error D801 (Django): DEBUG is True."
    assert printed.splitlines()[-1].startswith("1 finding (1 error) of ")
    assert "docs/reference/doctor.md#django" in printed
    _code, facts = _facts()
    (found,) = facts["findings"]
    assert set(found) == {"id", "severity", "subject", "saw", "why", "remedy", "link"}
    assert found["remedy"].startswith("Set DEBUG = False")


def test_a_warning_ends_with_1_unless_only_errors_shall(app: Celery) -> None:
    app.conf.worker_soft_shutdown_timeout = 0
    app.conf.worker_prefetch_multiplier = 4
    code, printed = idem("doctor")
    assert (code, "2 findings (2 warnings) of " in printed) == (1, True)
    code, facts = _facts("--fail-level", "error")
    assert (code, [each["id"] for each in facts["findings"]]) == (0, ["D106", "D307"])


def test_advice_is_said_and_ends_with_0(settings: Any) -> None:
    settings.USE_TZ = False
    code, facts = _facts()
    assert (code, facts["counts"]["advice"]) == (0, 1)


def test_what_the_project_has_silenced_is_not_said(settings: Any) -> None:
    settings.DEBUG = True
    settings.SILENCED_SYSTEM_CHECKS += ["django_idempotent_tasks.D801"]
    assert idem("doctor")[0] == 0


def test_tasks_that_cannot_be_imported_end_with_2(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        msg = "no module named shop"
        raise ImportError(msg)

    monkeypatch.setattr(app.loader, "import_default_modules", broken)
    with pytest.raises(CommandError, match=r"cannot be imported .*no module named shop") as error:
        idem("doctor")
    assert error.value.returncode == 2


def test_sarif_has_what_the_standard_requires(settings: Any) -> None:
    settings.DEBUG = True
    settings.USE_TZ = False
    code, printed = idem("doctor", "--format", "sarif")
    log = json.loads(printed)
    assert code == 1
    assert (log["version"], log["$schema"].rpartition("/")[2]) == ("2.1.0", "sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "idem doctor"
    rules = [rule["id"] for rule in driver["rules"]]
    assert rules == ["D801", "D803"]
    for rule in driver["rules"]:
        for part in ("shortDescription", "fullDescription", "help"):
            assert isinstance(rule[part]["text"], str)
        assert rule["defaultConfiguration"]["level"] in LEVELS
    assert len(run["results"]) == 2
    for result in run["results"]:
        assert result["message"]["text"]
        assert result["level"] in LEVELS
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
        for location in result["locations"]:
            place = location["physicalLocation"]
            assert place["artifactLocation"]["uri"] == "tests/support/settings.py"
            assert place["region"]["startLine"] >= 1


def test_the_same_finding_has_the_same_fingerprint_in_each_run(settings: Any) -> None:
    settings.DEBUG = True
    marks = [
        json.loads(idem("doctor", "--format", "sarif")[1])["runs"][0]["results"][0]["partialFingerprints"]
        for _ in range(2)
    ]
    assert marks[0] == marks[1]


def test_every_severity_is_a_level_of_sarif() -> None:
    assert set(_LEVELS) == set(Severity)
    assert set(_LEVELS.values()) <= LEVELS
