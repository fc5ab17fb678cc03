"""Who is to blame for a failed sending: what is sent on, what waits and what is given up hang on it."""

from __future__ import annotations

import pytest
from amqp.exceptions import MessageNacked, NotFound, RecoverableConnectionError
from kombu import Connection
from kombu.exceptions import OperationalError, SerializationError
from redis.exceptions import ConnectionError as RedisIsAway
from redis.exceptions import ResponseError

from django_idempotent_tasks.messages.blame import Fault, fault_of

AMQP, REDIS = "amqp://", "redis://"


def wrapped(cause: Exception) -> OperationalError:
    """As Celery raises it."""
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("as_raised", [lambda error: error, wrapped], ids=["alone", "wrapped"])
@pytest.mark.parametrize(
    ("url", "error", "fault"),
    [
        (AMQP, ConnectionRefusedError(), Fault.BROKER),
        (AMQP, TimeoutError(), Fault.BROKER),
        (AMQP, RecoverableConnectionError(), Fault.BROKER),
        (REDIS, RedisIsAway(), Fault.BROKER),
        (AMQP, NotFound(), Fault.REFUSED),
        (AMQP, MessageNacked(), Fault.REFUSED),
        (REDIS, ResponseError(), Fault.REFUSED),
        (REDIS, KeyError("carrier-pigeon"), Fault.MESSAGE),
        (AMQP, SerializationError(), Fault.MESSAGE),
        (AMQP, TypeError(), Fault.MESSAGE),
        (AMQP, RuntimeError(), Fault.UNKNOWN),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else None,
)
def test_each_error_has_one_to_blame(url: str, error: Exception, fault: Fault, as_raised: object) -> None:
    assert callable(as_raised)
    assert fault_of(as_raised(error), Connection(url)) is fault


def test_an_error_without_a_cause_is_of_a_broker_that_is_away() -> None:
    assert fault_of(OperationalError(), Connection(AMQP)) is Fault.BROKER


def test_where_the_connection_is_lost_no_message_is_to_blame() -> None:
    lost, kept = Connection("memory://"), Connection("memory://")
    kept.connect()
    assert fault_of(TypeError(), lost, is_in_use=True) is Fault.BROKER
    assert fault_of(TypeError(), kept, is_in_use=True) is Fault.MESSAGE
