"""The tests' settings with the admin under the theme that ``THEME`` names."""

from __future__ import annotations

import os

from tests.support.settings import *  # noqa: F403
from tests.support.settings import INSTALLED_APPS as OURS

#: What a theme asks for before Django's admin, in the order of its documentation.
THEMES = {
    "django": [],
    "unfold": ["unfold", "unfold.contrib.filters", "unfold.contrib.forms"],
    "jazzmin": ["jazzmin"],
}
INSTALLED_APPS = [*THEMES[os.environ["THEME"]], *OURS]
