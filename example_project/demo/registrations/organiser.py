"""An organiser with a browser: signs in and sends files, as a page does it."""

from __future__ import annotations

import re
import secrets
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

TIMEOUT = 60.0
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
UPLOAD = re.compile(r"/uploads/([0-9a-f-]{36})/")


class Organiser:
    """One who is signed in at the web server of this address."""

    def __init__(self, address: str, name: str, password: str) -> None:
        self._site = f"http://{address}"
        self._browser = build_opener(HTTPCookieProcessor(CookieJar()))
        token = self._token("/login/")
        form = {"username": name, "password": password, "csrfmiddlewaretoken": token}
        self._ask(Request(f"{self._site}/login/", urlencode(form).encode()))

    def send(self, event: int, name: str, body: bytes) -> str:
        """Send a file, and return the number of its upload."""
        token = self._token(f"/registrations/{event}/")
        edge = secrets.token_hex(16)
        parts = (
            f'--{edge}\r\nContent-Disposition: form-data; name="csrfmiddlewaretoken"\r\n\r\n{token}\r\n'
            f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: text/csv\r\n\r\n"
        )
        form = b"".join((parts.encode(), body, f"\r\n--{edge}--\r\n".encode()))
        headers = {"Content-Type": f"multipart/form-data; boundary={edge}"}
        address, text = self._ask(Request(f"{self._site}/registrations/{event}/send/", form, headers))
        found = UPLOAD.search(address)
        if found is None:
            raise ValueError(f"the file was refused: {text[:500]}")
        return found[1]

    def _token(self, path: str) -> str:
        _address, text = self._ask(Request(self._site + path))
        found = TOKEN.search(text)
        if found is None:
            raise ValueError(f"{path} has no form")
        return found[1]

    def _ask(self, request: Request) -> tuple[str, str]:
        """The address where it led to, and the text there."""
        try:
            with self._browser.open(request, timeout=TIMEOUT) as answer:
                return str(answer.url), answer.read().decode()
        except HTTPError as error:
            with error:
                raise ValueError(f"{error.code} from {request.full_url}: {error.read()[:500]!r}") from None
