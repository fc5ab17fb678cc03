"""Several clients of MariaDB or MySQL; who imports this is skipped, aloud, where there is none."""

from __future__ import annotations

import pytest
from django.conf import settings

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from tests.races.staging import Stage
from tests.support.ledger.innodb import waits
from tests.support.ledger.session import Session
from tests.support.waiting import eventually

ALIAS = "mysql"

if ALIAS not in settings.DATABASES:
    pytest.skip("MYSQL_URL names no MariaDB or MySQL", allow_module_level=True)

mark = pytest.mark.django_db(
    transaction=True, databases=["default", ALIAS], available_apps=["django_idempotent_tasks"]
)


class MysqlStage(Stage):
    """The words of the shipped promises there."""

    locks_missing_rows = False

    def store(self) -> LedgerStore:
        return get_store(ALIAS)


def wait_until_blocked(watcher: Session, thread: object) -> None:
    """Wait until the connection with this id waits for a lock of another one."""

    def look(store: LedgerStore) -> bool:
        with store.connection.cursor() as cursor:
            return waits(cursor, int(str(thread)))

    eventually(lambda: watcher.do(look), f"connection {thread} waits")
