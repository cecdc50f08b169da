"""A session with a server: the handshake, requests and their replies."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any
from urllib.parse import unquote, urlsplit

from kubernasium.errors import (
    BusyError,
    ClosedError,
    ConnectionLostError,
    KubernasiumError,
    ProtocolError,
    from_reply,
)
from kubernasium.protocol.codec import decode, encode
from kubernasium.protocol.transport import START, Transport, connect_unix
from kubernasium.protocol.websocket import connect_websocket

VERSION = (1, 1)
CLIENT = "kubernasium-python/0.1.0"
DEFAULT_TIMEOUT = 120.0

# Ids start where MessagePack writes every one with the same number of bytes, so that equal
# requests get replies of equal layout.
_FIRST_ID = 1 << 32


class Connection:
    """A session. Its environments live as long as it does.

    A connection is used by one thread at a time; it is a context manager.

    Attributes:
        server: name and version of the server.
        sid: id of the session in the server's log.
        version: version of the protocol in this session, (major, minor).
        caps: optional parts of the protocol that the server has.
        limits: the server's limits, by the names of the protocol.
        draining: whether the server has said that it stops.
    """

    def __init__(self, transport: Transport) -> None:
        """Says hello over a connected transport, which the connection closes at its end."""
        self.transport = transport
        self.lock = threading.Lock()
        self.draining = False
        self._id = _FIRST_ID
        self._end: BaseException | None = None
        try:
            welcome = self.request("hello", ver=list(VERSION), client=CLIENT)
        except BaseException:
            transport.close()
            raise
        self.server = str(welcome.get("server", ""))
        self.sid = str(welcome.get("sid", ""))
        self.version: tuple[int, ...] = tuple(welcome.get("ver", VERSION))
        self.caps: frozenset[str] = frozenset(welcome.get("caps", ()))
        self.limits: dict[str, int] = welcome.get("limits", {})
        _keep_alive(self)

    def request(self, kind: str, /, **fields: Any) -> dict[str, Any]:
        """Sends a request and returns its reply.

        Args:
            kind: `t` of the request.
            **fields: its other fields; None means absent.

        Raises:
            KubernasiumError: the server refused it, or the connection is lost.
        """
        with self.lock:
            rid = self.next_id()
            message = {key: value for key, value in fields.items() if value is not None}
            self.send(encode({"t": kind, "id": rid, **message}))
            return self._await(rid)

    def next_id(self) -> int:
        """Returns the id of the next request. The caller holds the lock."""
        self._id += 1
        return self._id

    def send(self, frame: bytes) -> None:
        """Sends a frame. The caller holds the lock."""
        if self._end is not None:
            raise self.ended()
        try:
            self.transport.send(frame)
        except BaseException as err:
            self.fail(err)
            raise

    def recv(self) -> bytearray:
        """Returns the buffer of the next frame, from `START`. The caller holds the lock.

        Any exception, Ctrl-C included, ends the connection: what was read of a frame is lost,
        and the next reply must not be taken for another's.
        """
        if self._end is not None:
            raise self.ended()
        try:
            return self.transport.recv()
        except BaseException as err:
            self.fail(err)
            raise

    def answers(self, frame: dict[str, Any], rid: int) -> bool:
        """Reports whether frame is the reply to the request with id rid.

        Raises:
            KubernasiumError: it is, and is a refusal; or the server refuses to go on.
        """
        kind, got = frame.get("t"), frame.get("id")
        if got == rid:
            if kind == "err":
                raise from_reply(frame)
            return True
        if got == 0 and kind == "err":
            error = from_reply(frame)
            if isinstance(error, BusyError):  # the server closes the connection next
                self.fail(error)
            raise error
        if got == 0 and kind == "drain":
            self.draining = True
        elif not isinstance(got, int) or got > rid:
            error = ProtocolError(f"a reply with id {got!r} while {rid} is awaited")
            self.fail(error)
            raise error
        return False  # an event, or the late reply to an abandoned request or a ping

    def _await(self, rid: int) -> dict[str, Any]:
        while True:
            frame = decode(memoryview(self.recv())[START:])
            if self.answers(frame, rid):
                return frame

    def ping(self) -> None:
        """Sends a ping without waiting for its reply, unless the connection is in use."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            self.send(encode({"t": "ping", "id": self.next_id()}))
        except KubernasiumError:
            pass  # the next request will tell
        finally:
            self.lock.release()

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._end is not None

    def ended(self) -> KubernasiumError:
        """Returns the exception for a use after the end."""
        if isinstance(self._end, ClosedError):
            return ClosedError("the connection is closed")
        cause = self._end
        return ConnectionLostError(
            f"the connection was lost ({type(cause).__name__}: {cause}); make the environment again"
        )

    def fail(self, cause: BaseException) -> None:
        """Ends the connection because of cause."""
        if self._end is None:
            self._end = cause
            self.transport.close()

    def close(self) -> None:
        """Ends the session. Further calls do nothing."""
        self.fail(ClosedError())

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def connect(url: str, *, token: str | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> Connection:
    """Opens a session.

    Args:
        url: `unix:/path/to/socket`, `ws://host:port` or `wss://host:port`.
        token: bearer token of a WebSocket server; by default the environment variable
            KUBERNASIUM_TOKEN.
        timeout: seconds to wait for each reply, or None to wait without end. After a timeout
            the connection is closed.

    Raises:
        ConnectionLostError: nobody answers there.
        UnauthenticatedError: the token is wrong or missing.
        ValueError: the URL is of no known kind.
    """
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return Connection(connect_unix(unquote(parts.netloc + parts.path), timeout))
    if parts.scheme in ("http", "https"):
        url = "ws" + url[len("http") :]
    if token is None:
        token = os.environ.get("KUBERNASIUM_TOKEN") or None
    return Connection(connect_websocket(url, token, timeout))


# Sessions end when no request comes for limits.idle_ms. One thread pings all connections.
_alive: weakref.WeakSet[Connection] = weakref.WeakSet()
_alive_lock = threading.Lock()
_pinger: threading.Thread | None = None
_wake = threading.Event()


def _keep_alive(connection: Connection) -> None:
    global _pinger
    if not connection.limits.get("idle_ms"):
        return
    with _alive_lock:
        _alive.add(connection)
        if _pinger is None or not _pinger.is_alive():  # or this process was forked
            _pinger = threading.Thread(target=_ping_all, name="kubernasium-ping", daemon=True)
            _pinger.start()
    _wake.set()


def _ping_all() -> None:
    while True:
        with _alive_lock:
            connections = [c for c in _alive if not c.closed]
        periods = [c.limits["idle_ms"] / 3000 for c in connections]
        del connections
        _wake.clear()
        if not _wake.wait(min(periods, default=3600.0)):
            with _alive_lock:
                connections = [c for c in _alive if not c.closed]
            for connection in connections:
                connection.ping()


def _after_fork() -> None:
    global _alive, _alive_lock, _pinger, _wake
    _alive, _alive_lock, _pinger, _wake = weakref.WeakSet(), threading.Lock(), None, threading.Event()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
