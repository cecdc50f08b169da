"""Pings, as a server ends sessions that send nothing for `limits.idle_ms`. One thread pings for all connections."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubernasium.protocol.connection import Connection

_alive: weakref.WeakSet[Connection] = weakref.WeakSet()
_alive_lock = threading.Lock()
_pinger: threading.Thread | None = None
_wake = threading.Event()


def keep_alive(connection: Connection) -> None:
    """Pings the server for a connection as long as that is open, if the last welcome has such a limit."""
    global _pinger
    with _alive_lock:
        if not connection.limits.get("idle_ms"):
            _alive.discard(connection)
            return
        _alive.add(connection)
        if _pinger is None or not _pinger.is_alive():  # or this process was forked
            _pinger = threading.Thread(target=_ping_all, name="kubernasium-ping", daemon=True)
            _pinger.start()
    _wake.set()


def _ping_all() -> None:
    due = math.inf  # a new connection moves it forward only
    while True:
        _wake.clear()
        with _alive_lock:
            limits = [c.limits.get("idle_ms") for c in _alive if not c.closed]
        now = time.monotonic()
        due = min(due, now + min((limit / 3000 for limit in limits if limit), default=math.inf))
        _wake.wait(min(max(0.0, due - now), 3600.0))
        if time.monotonic() >= due:
            _ping_each()
            due = math.inf


def _ping_each() -> None:
    """Is a function of its own, whose variables keep no connection alive until the next pings."""
    with _alive_lock:
        connections = [c for c in _alive if not c.closed]
    for connection in connections:
        connection.ping()


def _after_fork() -> None:
    global _alive, _alive_lock, _pinger, _wake
    _alive, _alive_lock, _pinger, _wake = weakref.WeakSet(), threading.Lock(), None, threading.Event()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
