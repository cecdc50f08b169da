"""Pings of connections that send nothing else."""

from __future__ import annotations

import gc
import time
import weakref

from kubernasium.launcher import Server
from kubernasium.protocol import connect


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
