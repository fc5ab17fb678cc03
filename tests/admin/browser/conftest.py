"""A browser where there is one; where there is none the tests are skipped, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.admin.browser.site import BROWSER, DRIVER, FLAGS, Browser, collect_static, served
from tests.support.keys import Keys


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """One browser for all tests."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="install selenium for the tests in a browser"
    )
    if BROWSER is None or DRIVER is None:
        pytest.skip("no Chromium with its driver here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield found
    found.quit()


@pytest.fixture
def browser(driver: Any, transactional_db: None, settings: Any, tmp_path: Path) -> Iterator[Browser]:  # noqa: ARG001
    """At the admin, with nobody signed in, in bright colours on a desk."""
    collect_static(tmp_path)
    settings.STATIC_ROOT = str(tmp_path)
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    settings.MIDDLEWARE = ["tests.admin.browser.site.strict", *settings.MIDDLEWARE]
    User.objects.create_superuser("root", password="secret")
    with served() as address:
        driver.delete_all_cookies()
        found = Browser(driver, address)
        found.look()
        yield found
        driver.get("about:blank")


@pytest.fixture
def keys() -> Keys:
    return Keys("default")
