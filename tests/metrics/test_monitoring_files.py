"""The alert rules and the dashboard to copy: they parse, they fire, and each metric in them exists."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from django_idempotent_tasks.metrics.instruments import COUNTERS, GAUGES, HISTOGRAMS
from django_idempotent_tasks.metrics.prometheus import full_name
from tests.docs.pages import ROOT
from tests.docs.tables import named

MONITORING = ROOT / "docs" / "monitoring"
#: Of Prometheus: of the Debian package ``prometheus``.
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on PATH (package prometheus)")

#: As they are scraped, with the labels of each.
SERIES = {
    **{f"{full_name(each)}_total": each.labels for each in COUNTERS},
    **{f"{full_name(each)}_bucket": (*each.labels, "le") for each in HISTOGRAMS},
    **{full_name(each): each.labels for each in GAUGES},
}


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PROMTOOL), *map(str, words)], capture_output=True, text=True, check=False)


def expressions() -> Iterator[str]:
    """Of the panels, with Grafana's variables as it fills them in."""
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "1m").replace("$task", ".*")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MONITORING / "grafana.json").read_text())
    return found


@needs_promtool
def test_the_rules_parse() -> None:
    checked = promtool("check", "rules", MONITORING / "alerts.yml")
    assert checked.returncode == 0, checked.stderr


@needs_promtool
def test_each_rule_fires_for_what_it_is_for_and_is_silent_before() -> None:
    tested = promtool("test", "rules", MONITORING / "alerts.test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_each_rule_has_a_case_that_fires_and_one_that_is_silent() -> None:
    rules = re.findall(r"alert: (\w+)", (MONITORING / "alerts.yml").read_text())
    cases = (MONITORING / "alerts.test.yml").read_text()
    assert len(rules) == len(set(rules)) > 10
    for rule in rules:
        assert re.search(rf"alertname: {rule}, exp_alerts: \[\]", cases), rule
        assert re.search(rf"alertname: {rule}\n +exp_alerts:\n +- exp_labels", cases), rule


@needs_promtool
def test_the_expressions_of_the_dashboard_parse(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions())]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML
    checked = promtool("check", "rules", file)
    assert checked.returncode == 0, checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


@pytest.mark.parametrize("file", ["alerts.yml", "alerts.test.yml", "grafana.json"])
def test_each_metric_in_them_exists_with_these_labels(file: str) -> None:
    text = (MONITORING / file).read_text().replace('\\"', '"')
    found = re.findall(r"\b(idempotent_tasks_\w+)(?:\{([^}]*)\})?", text)
    assert len(found) > 10
    for name, selector in found:
        assert name in SERIES, name
        assert set(re.findall(r"(\w+)=", selector)) <= set(SERIES[name]), (name, selector)


def test_the_dashboards_panels_do_not_lie_over_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _y in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])


def test_the_reference_has_every_metric_with_its_labels_word_by_word() -> None:
    code = {
        f"{full_name(each)}{suffix}": [", ".join(f"`{label}`" for label in each.labels), each.words]
        for kind, suffix in ((COUNTERS, "_total"), (HISTOGRAMS, ""), (GAUGES, ""))
        for each in kind
    }
    assert named("metrics.md") == code
