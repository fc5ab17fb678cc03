"""Tells Prometheus, OpenTelemetry and Sentry of runs: counters from signals, gauges from the ledger.

``TELEMETRY`` in the settings says who is told. Without it nothing here is imported, and nothing listens.
"""

from __future__ import annotations
