"""Reads from a request what a submission is bound to: the header ``Idempotency-Key``, and the user."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponse

from .answers import problem, user_scope

HEADER = "Idempotency-Key"
LIMIT = 255
_QUOTED = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_BARE = re.compile(r"[\x21-\x7e]+")


class Refused(Exception):
    """The request cannot be accepted; ``response`` says why."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__()
        self.response = response


def key_of(request: HttpRequest) -> str:
    """The key of the request's header."""
    value = (request.headers.get(HEADER) or "").strip()
    if not value:
        raise Refused(problem(400, "key-missing", f"Send a header {HEADER}, with a new key for new work."))
    quoted = _QUOTED.fullmatch(value)
    key = re.sub(r'\\(["\\])', r"\1", quoted[1]) if quoted else value
    if not key or len(key) > LIMIT or not (quoted or _BARE.fullmatch(value)) or (not quoted and '"' in value):
        text = f"{HEADER} must be 1 to {LIMIT} visible ASCII characters, in double quotes or without."
        raise Refused(problem(400, "key-malformed", text))
    return key


def scope_of(request: HttpRequest, scope: str | None) -> str:
    """The scope of the key: keys of other users are neither seen nor touched."""
    if scope is not None:
        return scope
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        raise Refused(problem(401, "not-signed-in", "Sign in: a key belongs to a user."))
    return user_scope(user)
