"""Messages that can never be sent: they end as dead letters, so that somebody hears of them."""

from __future__ import annotations

from amqp.exceptions import MessageNacked
from kombu import Connection
from kombu.exceptions import OperationalError, SerializationError, SerializerNotInstalled

from . import signals
from .announce import announce
from .conf import settings
from .failure import failure_of
from .models import IdempotencyKey
from .outcomes import Call, Due, Identity
from .states import Category, State
from .stores import LedgerStore
from .stores.transactions import read_on

#: So often a message is looked at that cannot be read or sent, each time after twice as long.
LOOKS = 6

#: What is raised before any broker is asked: of the content, the serializer, the compression, an option.
_OF_THE_MESSAGE = (
    SerializationError,
    SerializerNotInstalled,
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
)

_ROW = ("digest", "task", "task_id", "scope", "key_text")


def is_unsendable(error: BaseException) -> bool:
    """Whether the message is to blame, and not a broker that is away or does not answer."""
    return isinstance(_cause(error), _OF_THE_MESSAGE) and not isinstance(_cause(error), OSError)


def is_of_the_broker(error: BaseException, connection: Connection) -> bool:
    """Whether a broker that is away, does not answer or refuses is to blame, and the message may go later.

    Of an error that is neither, such as a router's of the project, nobody knows whether it will pass.
    """
    if is_unsendable(error):
        return not connection.connected  # a library that has lost its connection raises what it pleases
    theirs = (OperationalError, OSError, MessageNacked)
    return isinstance(_cause(error), (*theirs, *connection.connection_errors, *connection.channel_errors))


def _cause(error: BaseException) -> BaseException:
    """Kombu's Redis transport counts KeyError as an error of its connection."""
    is_wrapped = isinstance(error, OperationalError) and error.__cause__ is not None
    return error.__cause__ or error if is_wrapped else error


def give_up(store: LedgerStore, row: Due, error: Exception) -> None:
    """FAILED, with why: a person sends the call again, or discards it."""
    failure = failure_of(error, task=row.task, category=Category.FATAL)
    found = IdempotencyKey.objects.filter(digest=row.digest, token=row.token)
    for key in read_on(store, found, _ROW):
        if store.fail_unknown(
            row.digest,
            task_id=key.task_id,
            sends=LOOKS - 1,
            failure=failure,
            retention=settings().dead_letter_retention,
        ):
            identity = Identity(key.digest, key.scope, key.key_text, None)
            call = Call(identity, key.task, key.task_id, None)
            announce(
                signals.dead_lettered,
                sender=key.task,
                using=None,
                call=call,
                state=State.FAILED,
                failure=failure,
            )
