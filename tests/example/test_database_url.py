"""DATABASE_URL becomes Django's settings."""

from __future__ import annotations

import pytest

from example_project.database_url import database_from_url


def test_postgresql_over_tcp() -> None:
    database = database_from_url("postgresql://me:p%40ss@db.example:5433/shop?sslmode=require")

    assert database["ENGINE"] == "django.db.backends.postgresql"
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("db.example", "5433", "shop")
    assert (database["USER"], database["PASSWORD"]) == ("me", "p@ss")
    assert database["OPTIONS"]["sslmode"] == "require"
    assert database["OPTIONS"]["connect_timeout"] == 5


def test_postgresql_over_a_socket() -> None:
    database = database_from_url("postgresql:///shop?host=/run/pg&user=me")

    assert (database["HOST"], database["NAME"], database["USER"]) == ("/run/pg", "shop", "me")
    assert "host" not in database["OPTIONS"]


@pytest.mark.parametrize(
    ("url", "name"), [("sqlite:///shop.db", "shop.db"), ("sqlite:////srv/shop.db", "/srv/shop.db")]
)
def test_sqlite(url: str, name: str) -> None:
    database = database_from_url(url)

    assert (database["ENGINE"], database["NAME"]) == ("django.db.backends.sqlite3", name)
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


def test_mysql() -> None:
    database = database_from_url("mysql://me@db.example/shop")

    assert (database["ENGINE"], database["HOST"]) == ("django.db.backends.mysql", "db.example")


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"oracle.*postgresql"):
        database_from_url("oracle://db/shop")
