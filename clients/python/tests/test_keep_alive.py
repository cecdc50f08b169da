"""Pings of connections that send nothing else."""

from __future__ import annotations

import gc
import time
import weakref

from chaos import TO_INHERIT, inheriting
from kubernasium.launcher import Server
from kubernasium.protocol import connect, keep_alive


def test_pings_keep_no_connection_alive() -> None:
    """A connection that nobody closed ends when nobody uses it, also after pings."""
    with Server(args=["--listen", "127.0.0.1:0", "--idle-timeout", "900ms"]) as server:
        connection = connect(server.ws_url, timeout=20)
        before, end = connection._id, time.monotonic() + 20
        while connection._id == before and time.monotonic() < end:
            time.sleep(0.05)
        assert connection._id > before
        time.sleep(0.05)  # the thread waits again
        left = weakref.ref(connection)
        del connection
        gc.collect()
        assert left() is None


def restarted(server: Server, *args: str) -> Server:
    """Stops a server and returns another one at its address."""
    server.stop()
    return Server(args=[*inheriting(server.ws_url), *args])


def test_a_server_without_the_limit_takes_over() -> None:
    """A client that has reconnected to a server that ends no idle sessions stops pinging."""
    server = Server(args=[*TO_INHERIT, "--idle-timeout", "900ms"])
    with connect(server.ws_url, timeout=20) as connection:
        server = restarted(server)
        connection.request("ping")
        assert connection.limits["idle_ms"] == 0
        keep_alive._wake.set()  # as a new connection does
        before = connection.next_id()
        time.sleep(0.7)
        assert connection.next_id() == before + 1
    server.stop()


def test_a_server_with_the_limit_takes_over() -> None:
    """A client that has reconnected to a server that ends idle sessions begins to ping."""
    server = Server(args=TO_INHERIT)
    with connect(server.ws_url, timeout=20) as connection:
        server = restarted(server, "--idle-timeout", "900ms")
        connection.request("ping")
        assert connection.limits["idle_ms"] == 900
        before, end = connection.next_id(), time.monotonic() + 20
        while connection.next_id() == before + 1 and time.monotonic() < end:
            before += 1
            time.sleep(0.05)
        assert time.monotonic() < end
    server.stop()


def test_new_connections_delay_no_pings() -> None:
    """A session lives on although the process opens others again and again."""
    with (
        Server(args=["--listen", "127.0.0.1:0", "--idle-timeout", "1500ms"]) as server,
        connect(server.ws_url, timeout=20, reconnect=0) as connection,
    ):
        for _ in range(10):
            time.sleep(0.25)
            connect(server.ws_url, timeout=20, reconnect=0).close()
        connection.request("ping")
