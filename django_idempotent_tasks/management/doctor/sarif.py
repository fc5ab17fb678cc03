"""Writes findings as SARIF 2.1.0, which services for code review show beside a change."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings

from ...operations.doctor.check import Finding, Severity

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}


def sarif(found: list[Finding]) -> dict[str, Any]:
    """One run, with a rule for each check that found something and a result for each finding."""
    rules = {each.id: _rule(each) for each in found}
    places = {name: place for place, name in enumerate(rules)}
    driver = {"name": "idem doctor", "rules": list(rules.values())}
    where = _locations()
    results = [_result(each, places[each.id], where) for each in found]
    return {"$schema": SCHEMA, "version": VERSION, "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(found: Finding) -> dict[str, Any]:
    text = " ".join(part for part in (found.why, found.remedy, f"See {found.link}.") if part)
    return {
        "id": found.id,
        "shortDescription": {"text": f"{found.subject}: {found.id}"},
        "fullDescription": {"text": found.why or found.saw},
        "help": {"text": text},
        "defaultConfiguration": {"level": _LEVELS[found.severity]},
    }


def _result(found: Finding, place: int, where: list[dict[str, Any]]) -> dict[str, Any]:
    text = " ".join(part for part in (found.saw, found.why, found.remedy) if part)
    mark = hashlib.sha256(f"{found.id} {found.saw}".encode()).hexdigest()
    return {
        "ruleId": found.id,
        "ruleIndex": place,
        "level": _LEVELS[found.severity],
        "message": {"text": text},
        "locations": where,
        "partialFingerprints": {"finding/v1": mark},
    }


def _locations() -> list[dict[str, Any]]:
    """The project's settings module, relative to the working directory; none where it is elsewhere."""
    module = sys.modules.get(getattr(django_settings, "SETTINGS_MODULE", None) or "")
    path = Path(getattr(module, "__file__", None) or "/")
    if not path.is_relative_to(Path.cwd()):
        return []
    uri = path.relative_to(Path.cwd()).as_posix()
    return [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}]
