"""Lets a worker outlive a restart of Redis: works around a fault of kombu's Redis transport.

When the connection of a worker breaks, Celery closes it in two steps. In the first step a channel that has
something to delete at its end, as that of remote control has, fails before the other channels are
closed. In the second step the other channels no longer know their connection. A channel with
unacknowledged messages asks for it, to put them back, and gets ``AttributeError: 'NoneType' object has
no attribute 'hostname'``. Neither kombu nor Celery expects that error: it ends the worker, idle or busy,
wherever late acknowledgement leaves messages open. The acknowledgement of a body that ends later asks for
the connection as well. This module lets such a channel raise an error that kombu and Celery expect, and
that costs no more than that acknowledgement. The messages stay with the broker, which delivers them again
after its ``visibility_timeout``.
"""

from __future__ import annotations

from functools import wraps
from types import SimpleNamespace
from typing import Any, cast

from kombu.exceptions import OperationalError

try:
    from kombu.transport import redis
except (ImportError, AttributeError):  # kombu's module needs the client library to be there
    redis = None  # type: ignore[assignment]


class ChannelIsGone(OperationalError, ConnectionError):
    """The channel's connection was closed; the broker still has the channel's messages."""


_Channel: Any = getattr(redis, "Channel", None)


def is_needed() -> bool:
    """Whether the installed kombu has the fault: its channel does not notice that its connection is gone.

    It tries kombu's code and compares no version, so that it ends with the first kombu without the fault.
    """
    if _Channel is None:
        return False
    gone = _Channel.__new__(_Channel)
    gone.connection = SimpleNamespace(client=None, default_port=0)
    try:
        gone._connparams()  # noqa: SLF001  that is where kombu fails
    except AttributeError as error:
        return "hostname" in str(error)
    except Exception:  # noqa: BLE001  whatever another kombu does, it is not this
        return False
    return False


def install() -> None:
    """Let channels say that their connection is gone, where the installed kombu has the fault."""
    if not is_needed():
        return
    ask = _Channel._connparams  # noqa: SLF001  as above

    @wraps(ask)
    def ask_if_there(self: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if getattr(self.connection, "client", None) is None:
            msg = "The connection of this channel is closed; its messages are with the broker."
            raise ChannelIsGone(msg)
        return cast("dict[str, Any]", ask(self, *args, **kwargs))

    _Channel._connparams = ask_if_there  # noqa: SLF001  as above
