"""What MariaDB or MySQL says of the transactions that are open now.

``information_schema.innodb_trx`` is a copy, and the server makes it anew only where nobody has read it for a
tenth of a second: tests in other processes read it as well, and the words of a dead process stay in it.
"""

from __future__ import annotations

import re
from typing import Any

_ACTIVE = re.compile(r"\d+, ACTIVE\b")
_THREAD = re.compile(r"\bthread id (\d+),")
#: The line above the title of a section.
_SECTION = "\n--------\n"


def transactions(cursor: Any) -> dict[int, str]:
    """What the server says of each of them, by the id of its connection."""
    cursor.execute("SHOW ENGINE INNODB STATUS")
    status = str(cursor.fetchone()[2])
    found = {}
    for text in status.split("\n---TRANSACTION ")[1:]:
        thread = _THREAD.search(text)
        if _ACTIVE.match(text) and thread:
            found[int(thread[1])] = text.partition(_SECTION)[0]
    return found


def waits(cursor: Any, thread: int) -> bool:
    """Whether this connection waits for a lock of another one."""
    return "LOCK WAIT" in transactions(cursor).get(thread, "")
