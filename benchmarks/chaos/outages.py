"""Strikes at the servers of a chaos run: cut, killed, frozen, restarted, read-only, full."""

from __future__ import annotations

import signal
import time
from contextlib import closing, suppress
from importlib import import_module

from django.db import Error as DatabaseError
from django.db import connection
from redis import Redis

from benchmarks.chaos.asking import Rest, asking
from benchmarks.chaos.filling import fill
from benchmarks.chaos.plan import OF_A_BROKERS_DISK, OF_A_DISK, OF_A_PAIR, Fault, Strike
from benchmarks.chaos.servers import KEEPER, OwnServers, rabbitmqctl
from benchmarks.chaos.standby import Pair
from example_project.demo.connections import CLIENTS, TERMINATE
from example_project.servers.process import Server, children, send_signal

MYSQL_OTHERS = "SELECT id FROM information_schema.processlist WHERE id <> connection_id() AND user = %s"


class Outages:
    """What happens to the servers. Each method returns when the server is as it was."""

    def __init__(self, servers: OwnServers) -> None:
        self._servers = servers

    def strike(self, fault: Fault, rest: Rest) -> str:
        """Do it, for as long as the fault says; what was done."""
        pair = self._servers.database
        if fault.strike in OF_A_DISK | OF_A_BROKERS_DISK:
            return fill(fault.strike, self._servers, fault.seconds, rest)
        if isinstance(pair, Pair) and fault.strike in OF_A_PAIR:
            return _strike_pair(pair, fault, rest)
        return self._strike_one(fault, rest)

    def _strike_one(self, fault: Fault, rest: Rest) -> str:
        match fault.strike:
            case Strike.DATABASE_CUT:
                return f"cut {_cut_database()} connections to the database"
            case Strike.BROKER_CUT:
                return self._cut_broker()
            case Strike.DATABASE_READ_ONLY:
                return _read_only(fault, rest)
            case Strike.BROKER_FULL:
                return self._fill_memory(fault, rest)
        name, _, what = fault.strike.value.partition(" ")
        server = {
            "database": self._servers.database,
            "pooler": self._servers.pooler,
            "broker": self._servers.broker,
        }[name]
        return "" if server is None else f"{_away(server, what, fault, rest)} the {name}"

    def _cut_broker(self) -> str:
        if self._servers.node:
            rabbitmqctl(self._servers.node, "close_all_connections", "a fault")
            return "cut the connections to the broker"
        with Redis.from_url(self._servers.broker_url) as broker:
            number = sum(broker.client_kill_filter(_type=kind, skipme=True) for kind in CLIENTS)
        return f"cut {number} connections to the broker"

    def _fill_memory(self, fault: Fault, rest: Rest) -> str:
        """Let it refuse what needs memory."""
        if node := self._servers.node:
            rabbitmqctl(node, "set_vm_memory_high_watermark", "absolute", "1")
            rest(fault.seconds)
            rabbitmqctl(node, "set_vm_memory_high_watermark", "0.4")
        else:
            with Redis.from_url(self._servers.broker_url) as broker:
                broker.config_set("maxmemory", "1")
                rest(fault.seconds)
                broker.config_set("maxmemory", "0")
        return f"let the broker have no memory for {fault.seconds} s"


def _strike_pair(pair: Pair, fault: Fault, rest: Rest) -> str:
    if fault.strike is Strike.STANDBY_KILLED:
        pair.lose_standby(fault.seconds, rest)
        return f"killed the standby for {fault.seconds} s"
    behind = fault.strike is Strike.DATABASE_FAILED_OVER_LATE
    pair.fail_over(fault.seconds, rest, behind=behind)
    if behind:
        return f"killed the primary for good, its standby away for {fault.seconds} s, and promoted that"
    return f"killed the primary for good, and promoted the standby after {fault.seconds} s"


def _away(server: Server | Pair, what: str, fault: Fault, rest: Rest) -> str:
    if what == "frozen":
        family = _family(server.pid)
        for pid in family:
            send_signal(pid, signal.SIGSTOP)
        time.sleep(fault.seconds)  # whoever asks it meanwhile would wait for the end of this
        for pid in family:
            send_signal(pid, signal.SIGCONT)
        return f"froze for {fault.seconds} s"
    if what == "killed":
        server.kill()
        rest(fault.seconds)
    server.restart()
    return f"killed for {fault.seconds} s and started again" if what == "killed" else "restarted"


def _family(pid: int) -> list[int]:
    """A process and all that it has started, itself and further down."""
    return [pid, *(each for child in children(pid) for each in _family(child))]


def _cut_database() -> int:
    with asking() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(TERMINATE)
            return int(cursor.fetchone()[0])
        cursor.execute(MYSQL_OTHERS, [connection.settings_dict["USER"]])
        others = [row[0] for row in cursor.fetchall()]
        for each in others:
            with suppress(DatabaseError):  # it may have ended meanwhile
                cursor.execute(f"KILL {int(each)}")
        return len(others)


def _read_only(fault: Fault, rest: Rest) -> str:
    turn = _turn_mysql if connection.vendor == "mysql" else _turn_postgresql
    turn("ON")
    rest(fault.seconds)
    turn("OFF")
    return f"let the database be read-only for {fault.seconds} s"


def _turn_postgresql(value: str) -> None:
    with asking() as cursor:
        cursor.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        cursor.execute("SELECT pg_reload_conf()")


def _turn_mysql(value: str) -> None:
    place = connection.settings_dict
    driver = import_module("MySQLdb")
    with closing(driver.connect(host=place["HOST"], port=int(place["PORT"]), user=KEEPER)) as keeper:
        keeper.cursor().execute(f"SET GLOBAL read_only = {value}")
