"""A session with a server: the handshake, requests and their replies."""

from __future__ import annotations

import ipaddress
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from kubernasium.errors import (
    BusyError,
    ClosedError,
    ConnectionLostError,
    ForkedError,
    KubernasiumError,
    ProtocolError,
    ReplyTimeoutError,
    from_reply,
)
from kubernasium.protocol.codec import decode, encode
from kubernasium.protocol.transport import START, Transport, connect_unix
from kubernasium.protocol.websocket import connect_websocket

VERSION = (1, 2)
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
        local: whether the server is on this machine, so that both see the same files.
        remedy: what to do when the connection is lost, for messages.
        post_mortem: returns why the server does not answer any more, for messages; "" if it runs.
    """

    def __init__(self, transport: Transport, *, local: bool = False) -> None:
        """Says hello over a connected transport, which the connection closes at its end."""
        self.transport = transport
        self.local = local
        self.remedy = "make the environment again"
        self.post_mortem: Callable[[], str] = str
        self.lock = threading.Lock()
        self._pid = os.getpid()
        _all.add(self)
        self.draining = False
        self._id = _FIRST_ID
        self._expected: set[int] = set()  # ids of requests whose replies are received later
        self._arrived: dict[int, bytearray] = {}  # those replies, if they came while another was awaited
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
            self._failed(err)
            raise

    def expect(self, rid: int) -> None:
        """Keeps the reply to request rid for a later `recv` or `poll`. The caller holds the lock."""
        self._expected.add(rid)

    def poll(self, rid: int, timeout: float) -> bool:
        """Receives frames until the reply to rid, which is expected, has come.

        Args:
            rid: id of the request.
            timeout: seconds after which to give up.

        Returns:
            Whether it has come. After an exception the reply is dropped when it comes.
        """
        deadline = time.monotonic() + timeout
        try:
            while rid not in self._arrived:
                if self._end is not None:
                    raise self.ended()
                if not self.transport.ready(max(0.0, deadline - time.monotonic())):
                    return False
                with self.lock:
                    buf = self.recv()
                    self._sort(decode(memoryview(buf)[START:]), buf)
        except BaseException:
            self._expected.discard(rid)
            raise
        return True

    def recv(self, rid: int = 0) -> bytearray:
        """Returns the buffer of the reply to rid if it has come, or else of the next frame.

        The frame begins at `START`. The caller holds the lock. An exception of a signal
        handler, such as Ctrl-C's, leaves the connection usable: the reply is received by the next
        call, which drops it by its id.
        """
        self._expected.discard(rid)
        if rid in self._arrived:
            return self._arrived.pop(rid)
        if self._end is not None:
            raise self.ended()
        try:
            return self.transport.recv()
        except BaseException as err:
            self._failed(err)
            raise

    def _failed(self, err: BaseException) -> None:
        """Ends the connection because of err, unless the transport can be used after it."""
        if not isinstance(err, KubernasiumError):
            if not self.transport.usable:
                self.fail(err)
            return
        self.fail(err)
        if (
            isinstance(err, ConnectionLostError)
            and not isinstance(err, ReplyTimeoutError)
            and (why := self.post_mortem())
        ):
            err.args = (f"{err}; {why}",)

    def answers(self, frame: dict[str, Any], rid: int, buf: bytearray) -> bool:
        """Reports whether frame, which lies in buf, is the reply to the request with id rid.

        Raises:
            KubernasiumError: it is, and is a refusal; or the server ends the session.
        """
        if frame.get("id") == rid:
            if frame.get("t") == "err":
                raise from_reply(frame)
            return True
        self._sort(frame, buf)
        return False

    def _sort(self, frame: dict[str, Any], buf: bytearray) -> None:
        """Takes in a frame that nobody waits for now: another reply, or an event."""
        kind, got = frame.get("t"), frame.get("id")
        if got == 0 and kind == "err":
            error = from_reply(frame)
            if isinstance(error, BusyError):  # the server closes the connection next
                self.fail(error)
            raise error
        if got == 0 and kind == "drain":
            self.draining = True
        elif not isinstance(got, int) or got > self._id:
            error = ProtocolError(f"a reply with id {got!r}, where {self._id} is the last request's")
            self.fail(error)
            raise error
        elif got in self._expected:
            self._arrived[got] = buf
        # Else it is an event, or the late reply to an abandoned request or a ping.

    def _await(self, rid: int) -> dict[str, Any]:
        while True:
            buf = self.recv()
            frame = decode(memoryview(buf)[START:])
            if self.answers(frame, rid, buf):
                return frame

    def ping(self) -> None:
        """Sends a ping without waiting for its reply, unless the connection is in use."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            self.send(encode({"t": "ping", "id": self.next_id()}))
        except KubernasiumError:
            pass  # the next request will fail alike
        finally:
            self.lock.release()

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._end is not None

    def ended(self) -> KubernasiumError:
        """Returns the exception for a use after the end."""
        cause = self._end
        if isinstance(cause, (ClosedError, ForkedError)):
            return type(cause)(*cause.args)
        return ConnectionLostError(f"the connection was lost ({type(cause).__name__}: {cause}); {self.remedy}")

    @property
    def lost(self) -> bool:
        """Whether the connection has ended without a call of `close`."""
        return self._end is not None and not isinstance(self._end, (ClosedError, ForkedError))

    def fail(self, cause: BaseException) -> None:
        """Ends the connection because of cause."""
        if self._end is None:
            self._end = cause
            self.transport.close()

    def close(self) -> None:
        """Ends the session. Further calls do nothing."""
        self.fail(ClosedError("the connection is closed"))

    def _forked(self) -> None:
        """Gives up a forked child's copy: two processes would read each other's replies."""
        self.lock = threading.Lock()
        if self._end is None:
            self._end = ForkedError(
                f"process {os.getpid()} uses an environment or connection of process {self._pid}, of which it is a "
                "fork; make it in the process that uses it"
            )
            self.transport.abandon()

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
        return Connection(connect_unix(unquote(parts.netloc + parts.path), timeout), local=True)
    if parts.scheme in ("http", "https"):
        url = "ws" + url[len("http") :]
    if token is None:
        token = os.environ.get("KUBERNASIUM_TOKEN") or None
    return Connection(connect_websocket(url, token, timeout), local=_is_loopback(parts.hostname or ""))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_all: weakref.WeakSet[Connection] = weakref.WeakSet()  # for a fork to give up

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
    for connection in list(_all):
        connection._forked()
    _all.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
