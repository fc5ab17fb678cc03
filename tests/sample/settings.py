"""Django settings of the tests' worker processes: the tests' own, with what the environment changes."""

from __future__ import annotations

import json
import os

from tests.sample.celery import app
from tests.support.settings import *  # noqa: F403
from tests.support.settings import DATABASES

app.set_default()

IDEMPOTENT_TASKS = json.loads(os.environ.get("PROJ_IDEMPOTENT_TASKS", "{}"))

DATABASES["default"]["CONN_MAX_AGE"] = int(os.environ.get("PROJ_CONN_MAX_AGE", "0"))
