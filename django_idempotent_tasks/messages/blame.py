"""Who is to blame for a failed sending: the broker, the message, or nobody knows."""

from __future__ import annotations

from enum import Enum

from amqp.exceptions import MessageNacked
from kombu import Connection
from kombu.exceptions import OperationalError, SerializationError, SerializerNotInstalled

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


class Fault(Enum):
    """Who is to blame for a failed sending."""

    #: The broker is away or does not answer: the message may go later, and other messages do not go now.
    BROKER = "broker"
    #: The broker answers and does not take the message: it may later, and other messages may go now.
    REFUSED = "refused"
    #: The message, which no broker was asked about: it will fail again.
    MESSAGE = "message"
    #: An error of something else, such as a router of the project: nobody knows whether it will pass.
    UNKNOWN = "unknown"


def fault_of(error: BaseException, connection: Connection, *, is_in_use: bool = False) -> Fault:
    """Who is to blame for what a sending to the broker of ``connection`` has raised.

    ``is_in_use`` says that the message was sent on this very connection: a library that has lost its
    connection raises what it pleases.
    """
    error = _cause(error)
    # Before the connection's: kombu's Redis transport counts KeyError, of an unknown compression, as its own.
    if isinstance(error, _OF_THE_MESSAGE) and not isinstance(error, OSError):
        return Fault.BROKER if is_in_use and not connection.connected else Fault.MESSAGE
    if isinstance(error, (MessageNacked, *connection.channel_errors)):
        return Fault.REFUSED
    if isinstance(error, (OperationalError, OSError, *connection.connection_errors)):
        return Fault.BROKER
    return Fault.UNKNOWN


def _cause(error: BaseException) -> BaseException:
    """The error that Celery has wrapped, which may be one of a channel."""
    is_wrapped = isinstance(error, OperationalError) and error.__cause__ is not None
    return error.__cause__ or error if is_wrapped else error
