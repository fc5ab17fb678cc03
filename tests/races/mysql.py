"""Several clients of MariaDB or MySQL; who imports this is skipped, aloud, where there is none."""

from __future__ import annotations

import pytest
from django.conf import settings

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from tests.races.staging import Stage
from tests.support.ledger.session import Session
from tests.support.waiting import eventually

ALIAS = "mysql"

if ALIAS not in settings.DATABASES:
    pytest.skip("MYSQL_URL names no MariaDB or MySQL", allow_module_level=True)

mark = pytest.mark.django_db(
    transaction=True, databases=["default", ALIAS], available_apps=["django_idempotent_tasks"]
)

LOCK_WAIT = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
#: The server makes that table anew only where nobody has looked at it for a tenth of a second.
PACE = 0.12


class MysqlStage(Stage):
    """The words of the shipped promises there."""

    locks_missing_rows = False

    def store(self) -> LedgerStore:
        return get_store(ALIAS)


def wait_until_blocked(watcher: Session, thread: object) -> None:
    """Wait until the connection with this id waits for a lock of another one."""
    look = f"{LOCK_WAIT} AND trx_mysql_thread_id = {thread}"
    eventually(lambda: watcher.sql(f"SELECT EXISTS ({look})"), f"connection {thread} waits", every=PACE)
