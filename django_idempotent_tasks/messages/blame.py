"""Decides whose fault a failed sending is: the broker's, the message's, or unknown."""

from __future__ import annotations

from enum import Enum

from amqp.exceptions import MessageNacked
from kombu import Connection
from kombu.exceptions import OperationalError, SerializationError, SerializerNotInstalled

#: Raised before any broker is asked, for the content, the serializer, the compression or an option.
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
    """Whose fault a failed sending is."""

    #: The broker is away or does not answer: this message may go later, and no other goes now.
    BROKER = "broker"
    #: The broker answers and refuses the message: this one may go later, and others now.
    REFUSED = "refused"
    #: The message itself fails before any broker is asked, and will fail again.
    MESSAGE = "message"
    #: The error comes from elsewhere, such as a router of the project: nobody knows whether it will pass.
    UNKNOWN = "unknown"


def fault_of(error: BaseException, connection: Connection, *, is_in_use: bool = False) -> Fault:
    """Whose fault an error is that a sending to the broker of ``connection`` has raised.

    ``is_in_use`` says that the message was sent on this very connection: a library that has lost its
    connection may raise any error.
    """
    error = _cause(error)
    # First, since kombu's Redis transport counts KeyError (an unknown compression) as a connection error.
    if isinstance(error, _OF_THE_MESSAGE) and not isinstance(error, OSError):
        return Fault.BROKER if is_in_use and not connection.connected else Fault.MESSAGE
    if isinstance(error, (MessageNacked, *connection.channel_errors)):
        return Fault.REFUSED
    if isinstance(error, (OperationalError, OSError, *connection.connection_errors)):
        return Fault.BROKER
    return Fault.UNKNOWN


def _cause(error: BaseException) -> BaseException:
    """The error that Celery has wrapped, which may be a channel error."""
    is_wrapped = isinstance(error, OperationalError) and error.__cause__ is not None
    return error.__cause__ or error if is_wrapped else error
