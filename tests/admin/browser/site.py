"""The admin behind a real server with a strict Content-Security-Policy, and a real browser before it."""

from __future__ import annotations

import os
import shutil
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.test.testcases import LiveServerThread, _StaticFilesHandler

from tests.support.pictures import note

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1280,1000",
)  # fmt: skip
#: Where screenshots are kept, for people.
SHOTS = os.environ.get("BROWSER_SHOTS")
#: Where the pictures of the documentation are kept: "make docs-pictures" makes them again.
PICTURES = os.environ.get("DOCS_PICTURES")


def strict(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A middleware: nothing inline, nothing from elsewhere."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = "default-src 'self'"
        return response

    return middleware


def collect_static(root: Path) -> None:
    """The static files of the installed apps."""
    for config in apps.get_app_configs():
        source = Path(config.path) / "static"
        if source.is_dir():
            shutil.copytree(source, root, dirs_exist_ok=True)


@contextmanager
def served() -> Iterator[str]:
    """Its address."""
    thread = LiveServerThread("127.0.0.1", _StaticFilesHandler)
    thread.daemon = True
    thread.start()
    thread.is_ready.wait()
    if thread.error:
        raise thread.error
    try:
        yield f"http://{thread.host}:{thread.port}"
    finally:
        thread.terminate()


@dataclass
class Browser:
    """A browser at a site; ``driver`` is Selenium's."""

    driver: Any
    site: str
    #: What was pressed and followed.
    clicks: int = 0

    def open(self, path: str) -> None:
        """Go to a page of the site."""
        self.driver.get(self.site + path)

    def sign_in(self, name: str) -> None:
        """As a member of the staff whose password is "secret"."""
        self.open("/admin/login/")
        self.fill("username", name)
        self.fill("password", "secret")
        self.press("Log in")

    def fill(self, name: str, text: str) -> None:
        """Type into a field."""
        field = self.driver.find_element("css selector", f"[name='{name}']:not([type='hidden'])")
        field.clear()
        field.send_keys(text)

    def press(self, label: str) -> None:
        """Press the button with this label."""
        self._click(f"//input[@type='submit' and @value='{label}'] | //button[normalize-space()='{label}']")

    def press_named(self, name: str) -> None:
        """Press the button with this name: its label differs from one Django to the next."""
        self._click(f"//button[@name='{name}']")

    def follow(self, words: str) -> None:
        """Follow the first link with these words."""
        self._click(f"(//div[@id='content']//a[contains(normalize-space(), '{words}')])[1]")

    def _click(self, path: str) -> None:
        from selenium.common.exceptions import WebDriverException  # noqa: PLC0415  where it is installed
        from selenium.webdriver.support.ui import WebDriverWait  # noqa: PLC0415

        def is_gone(_driver: Any) -> bool:
            try:
                element.is_enabled()
            except WebDriverException:  # stale, or of a document that is just being replaced
                return True
            return False

        element = self.driver.find_element("xpath", path)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        self.clicks += 1
        # The next step must not overtake the page that this one leads to.
        WebDriverWait(self.driver, 20).until(is_gone)

    def toggle(self, label: str) -> None:
        """Press a button that leads to no other page."""
        self.driver.find_element("xpath", f"//button[normalize-space()='{label}']").click()

    @property
    def text(self) -> str:
        """What is to be read on the page."""
        return str(self.driver.find_element("css selector", "body").text)

    @property
    def complaints(self) -> list[str]:
        """What the browser complained of, a refused style or script among it."""
        return [
            entry["message"] for entry in self.driver.get_log("browser") if "favicon" not in entry["message"]
        ]

    @property
    def is_wider_than_the_screen(self) -> bool:
        """Whether the page as a whole must be scrolled sideways."""
        script = "return document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"
        return bool(self.driver.execute_script(script))

    @property
    def cut(self) -> list[str]:
        """The lists that must be scrolled sideways to be read."""
        script = """return [...document.querySelectorAll('.results, #result_list')]
            .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.id || each.className)"""
        return list(self.driver.execute_script(script))

    def look(self, *, dark: bool = False, phone: bool = False, still: bool = False) -> None:
        """The colours that the system asks for, the size of the screen, and whether little shall move."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, motion]})
        size = {"width": 390, "height": 844} if phone else {"width": 1280, "height": 1000}
        metrics = {**size, "deviceScaleFactor": 1, "mobile": phone}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def picture(self, name: str) -> None:
        """A small picture of the top of the page, without the menu, where DOCS_PICTURES says."""
        self.shoot(f"drill-{name}")
        if PICTURES:
            box = self.driver.find_element("css selector", "#content").rect
            height = min(box["height"], 720)
            clip = {"x": box["x"], "y": box["y"], "width": box["width"], "height": height, "scale": 0.85}
            self._keep(Path(PICTURES) / f"{name}.png", clip)
            note(Path(PICTURES), name)

    def _keep(self, path: Path, clip: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        asked = {"clip": clip, "captureBeyondViewport": True}
        path.write_bytes(b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"]))

    def shoot(self, name: str) -> None:
        """A picture of the whole page, where BROWSER_SHOTS says."""
        if SHOTS:
            height = self.driver.execute_script("return document.documentElement.scrollHeight")
            width = self.driver.execute_script("return document.documentElement.clientWidth")
            clip = {"x": 0, "y": 0, "width": width, "height": min(height, 2400), "scale": 1}
            self._keep(Path(SHOTS) / f"{name}.png", clip)
