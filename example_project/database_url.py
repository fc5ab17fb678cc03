"""Reads DATABASE_URL into Django's DATABASES entry, without another dependency."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

ENGINES = {
    "postgres": "django.db.backends.postgresql",
    "postgresql": "django.db.backends.postgresql",
    "mysql": "django.db.backends.mysql",
    "sqlite": "django.db.backends.sqlite3",
}

#: A database host that vanishes is noticed within a minute instead of after two hours.
POSTGRESQL_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

#: SQLite refuses to turn a read lock into a write lock under load, so transactions start as writers.
SQLITE_OPTIONS = {"transaction_mode": "IMMEDIATE", "timeout": 20}


def database_from_url(url: str) -> dict[str, Any]:
    """Return the DATABASES entry for ``url``.

    ``postgresql://user:password@host:port/name``, ``postgresql:///name?host=/socket/directory``,
    ``mysql://...`` and ``sqlite:///relative`` or ``sqlite:////absolute`` are understood; other
    query parameters are options of the database driver.
    """
    parts = urlsplit(url)
    if parts.scheme not in ENGINES:
        message = f"DATABASE_URL begins with {parts.scheme!r}; use one of {sorted(ENGINES)}."
        raise ValueError(message)
    if parts.scheme == "sqlite":
        return {"ENGINE": ENGINES["sqlite"], "NAME": unquote(parts.path[1:]), "OPTIONS": dict(SQLITE_OPTIONS)}
    query: dict[str, Any] = dict(parse_qsl(parts.query))
    # libpq's way to name a socket directory, which does not fit between the slashes.
    host, port, user = (query.pop(name, "") for name in ("host", "port", "user"))
    options = {**POSTGRESQL_OPTIONS, **query} if parts.scheme.startswith("postgres") else query
    return {
        "ENGINE": ENGINES[parts.scheme],
        "NAME": unquote(parts.path[1:]),
        "USER": user or unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host or unquote(parts.hostname or ""),
        "PORT": port or str(parts.port or ""),
        "OPTIONS": options,
    }
