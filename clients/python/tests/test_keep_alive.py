"""Pings of connections that send nothing else."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable

from chaos import TO_INHERIT, inheriting
from kubernasium.launcher import Server
from kubernasium.protocol import connect, keep_alive

IDLE, INTERVAL = "3s", 1  # the limit of servers, and the seconds after which clients ping, a third of it


def eventually(condition: Callable[[], bool]) -> bool:
    """Waits until condition is true, and reports whether it has become so."""
    end = time.monotonic() + 30
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return met


def test_pings_keep_no_connection_alive() -> None:
    """A connection that nobody closed ends when nobody uses it, also after pings."""
    with Server(args=["--listen", "127.0.0.1:0", "--idle-timeout", IDLE]) as server:
        connection = connect(server.ws_url, timeout=20)
        before, left = connection._id, weakref.ref(connection)
        assert eventually(lambda: left()._id > before)
        del connection
        assert eventually(lambda: gc.collect() >= 0 and left() is None)  # the thread may still be in its ping


def restarted(server: Server, *args: str) -> Server:
    """Stops a server and returns another one at its address."""
    server.stop()
    return Server(args=[*inheriting(server.ws_url), *args])


def test_a_server_without_the_limit_takes_over() -> None:
    """A client that has reconnected to a server that ends no idle sessions stops pinging."""
    server = Server(args=[*TO_INHERIT, "--idle-timeout", IDLE])
    with connect(server.ws_url, timeout=20) as connection:
        server = restarted(server)
        connection.request("ping")
        assert connection.limits["idle_ms"] == 0
        keep_alive._wake.set()  # as a new connection does
        before = connection.next_id()
        time.sleep(INTERVAL + 0.3)
        assert connection.next_id() == before + 1
    server.stop()


def test_a_server_with_the_limit_takes_over() -> None:
    """A client that has reconnected to a server that ends idle sessions begins to ping."""
    server = Server(args=TO_INHERIT)
    with connect(server.ws_url, timeout=20) as connection:
        server = restarted(server, "--idle-timeout", IDLE)
        connection.request("ping")
        assert connection.limits["idle_ms"] == 3000 * INTERVAL
        before = connection._id
        assert eventually(lambda: connection._id > before)
    server.stop()


def test_new_connections_delay_no_pings() -> None:
    """A session is pinged although the process opens others, faster than pings come."""
    with (
        Server(args=["--listen", "127.0.0.1:0", "--idle-timeout", IDLE]) as server,
        connect(server.ws_url, timeout=20, reconnect=0) as connection,
    ):
        before = connection._id

        def pinged() -> bool:
            connect(server.ws_url, timeout=20, reconnect=0).close()
            return connection._id > before

        assert eventually(pinged)
        connection.request("ping")
