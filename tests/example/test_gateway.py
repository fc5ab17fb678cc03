"""The gateway charges once for a key, and the client turns each answer into the right error."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING

import pytest

from example_project.gateway.server import Behaviour, GatewayServer
from example_project.gateway.store import DECLINED_AMOUNT, OUTAGE_AMOUNT, UNREADABLE_AMOUNT
from example_project.payments import gateway_client
from example_project.payments.gateway_client import CardDeclined, GatewayRefused, GatewayUnavailable
from example_project.servers.process import free_port

if TYPE_CHECKING:
    from pytest_django import Settings

ORDER = {"reference": "acme/pay_1", "amount": "19.90", "currency": "EUR"}


def post(
    gateway: GatewayServer, body: object, key: str = "k1", path: str = "/charges"
) -> tuple[HTTPResponse, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", gateway.server_port, timeout=5)
    try:
        text = body if isinstance(body, str) else json.dumps(body)
        connection.request("POST", path, text, {"Idempotency-Key": key} if key else {})
        response = connection.getresponse()
        return response, json.loads(response.read())
    finally:
        connection.close()


def charge(key: str = "k1", amount: str = "19.90") -> str:
    return gateway_client.charge(reference="acme/pay_1", amount=amount, currency="EUR", idempotency_key=key)


def test_the_same_key_gets_the_same_charge_again(gateway: GatewayServer) -> None:
    first, charged = post(gateway, ORDER)
    second, replayed = post(gateway, ORDER)

    assert (first.status, second.status) == (201, 201)
    assert (first.headers["Idempotent-Replayed"], second.headers["Idempotent-Replayed"]) == (None, "true")
    assert charged == replayed
    assert gateway.store.stats() == {"charges": 1, "raw_calls": 2, "keys_called_twice": 1}


def test_another_order_under_the_key_is_refused(gateway: GatewayServer) -> None:
    post(gateway, ORDER)
    response, _ = post(gateway, {**ORDER, "amount": "20.00"})

    assert response.status == 422
    assert gateway.store.stats()["charges"] == 1


def test_a_bank_that_is_down_says_when_to_come_again_and_charges_when_it_is_up(
    gateway: GatewayServer,
) -> None:
    with pytest.raises(GatewayUnavailable, match="503") as error:
        charge(amount=OUTAGE_AMOUNT)

    assert error.value.retry_after == "1"
    assert charge("k2")
    assert post(gateway, {}, path="/recover")[0].status == 200
    assert charge(amount=OUTAGE_AMOUNT)


def test_another_key_is_another_charge(gateway: GatewayServer) -> None:
    assert charge("k1") != charge("k2")
    assert gateway.store.stats() == {"charges": 2, "raw_calls": 2, "keys_called_twice": 0}


def test_calls_with_one_key_at_once_make_one_charge(gateway: GatewayServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        references = list(pool.map(charge, ["k1"] * 16))

    assert len(set(references)) == 1
    assert gateway.store.stats() == {"charges": 1, "raw_calls": 16, "keys_called_twice": 1}


def test_a_decline_is_remembered_and_moves_no_money(gateway: GatewayServer) -> None:
    for _ in range(2):
        with pytest.raises(CardDeclined):
            charge(amount=DECLINED_AMOUNT)

    assert gateway.store.stats() == {"charges": 0, "raw_calls": 2, "keys_called_twice": 1}


def test_the_unreadable_amount_is_refused_for_good_and_moves_no_money(gateway: GatewayServer) -> None:
    with pytest.raises(GatewayRefused):
        charge(amount=UNREADABLE_AMOUNT)

    assert gateway.store.stats()["charges"] == 0


def test_every_call_is_counted_for_its_reference(gateway: GatewayServer) -> None:
    charge("k1")
    charge("k1")
    charge("k2")

    assert gateway.store.calls() == {"acme/pay_1": 3}


@pytest.mark.parametrize("body", ["", "{", "[]", "null", {"amount": "1.00"}, {**ORDER, "amount": 1}])
def test_a_malformed_order_is_refused(gateway: GatewayServer, body: object) -> None:
    response, _ = post(gateway, body)

    assert response.status == 400
    assert gateway.store.stats()["raw_calls"] == 0


def test_an_order_without_a_key_is_refused(gateway: GatewayServer) -> None:
    assert post(gateway, ORDER, key="")[0].status == 400


def test_the_charges_can_be_listed(gateway: GatewayServer) -> None:
    reference = charge()

    assert gateway.store.charges() == [{"id": reference, "key": "k1", **ORDER}]


def test_an_overloaded_gateway_is_unavailable_and_charges_at_the_next_try(gateway: GatewayServer) -> None:
    gateway.behaviour = Behaviour(latency=(0, 0), unavailable=1)
    with pytest.raises(GatewayUnavailable):
        charge()
    gateway.behaviour = Behaviour(latency=(0, 0))

    assert charge()
    assert gateway.store.stats() == {"charges": 1, "raw_calls": 2, "keys_called_twice": 1}


def test_a_gateway_that_is_down_is_unavailable(example_settings: Settings) -> None:
    example_settings.GATEWAY_URL = f"http://127.0.0.1:{free_port()}"

    with pytest.raises(GatewayUnavailable):
        charge()


def test_a_lost_answer_is_unavailable_and_the_next_try_gets_the_charge(
    gateway: GatewayServer, example_settings: Settings
) -> None:
    gateway.behaviour = Behaviour(latency=(1, 1))
    example_settings.GATEWAY_TIMEOUT = 0.2
    with pytest.raises(GatewayUnavailable):
        charge()
    gateway.behaviour = Behaviour(latency=(0, 0))
    example_settings.GATEWAY_TIMEOUT = 5.0

    assert charge()
    assert gateway.store.stats()["charges"] == 1


@pytest.mark.usefixtures("gateway")
def test_a_key_used_for_another_order_is_final() -> None:
    charge()

    with pytest.raises(GatewayRefused):
        charge(amount="20.00")


@pytest.mark.usefixtures("gateway")
def test_a_debit_is_pending_at_first_and_settled_when_it_is_asked_for_again() -> None:
    debit = {**ORDER, "method": "debit"}

    answers = [gateway_client.ask_for_charge(debit, "k1") for _ in range(2)]

    assert [answer.status for answer in answers] == ["pending", "completed"]
    assert answers[0].reference == answers[1].reference
    assert gateway_client.ask_for_charge(ORDER, "k2").status == "completed"


def test_a_method_that_is_not_known_is_refused(gateway: GatewayServer) -> None:
    assert post(gateway, {**ORDER, "method": "barter"})[0].status == 400
