"""How the tests' users are known to Django REST framework: by a token, or by a session."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed


class TokenOfName(BaseAuthentication):
    """Takes the name of a user for a token."""

    def authenticate(self, request: Any) -> tuple[User, str] | None:
        words = request.headers.get("Authorization", "").split()
        if words[:1] != ["Token"]:
            return None
        user = User.objects.filter(username=words[1]).first()
        if user is None:
            raise AuthenticationFailed
        return user, words[1]

    def authenticate_header(self, request: Any) -> str:  # noqa: ARG002  DRF's own signature
        return "Token"
