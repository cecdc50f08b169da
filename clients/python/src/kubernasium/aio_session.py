"""The sessions of the asyncio client: requests, replies, and their transport."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from kubernasium.errors import (
    ClosedError,
    ConnectionLostError,
    KubernasiumError,
    ProtocolError,
    ReplyTimeoutError,
    from_reply,
)
from kubernasium.launcher import default_server, urls_of
from kubernasium.protocol import checks
from kubernasium.protocol.codec import decode, encode
from kubernasium.protocol.connection import CLIENT, GRACE, VERSION, missing
from kubernasium.protocol.dial import is_loopback, many
from kubernasium.protocol.packing import ZSTD, Packer, compresses
from kubernasium.protocol.transport import MAX_FRAME
from kubernasium.protocol.websocket import BINARY, CLOSE, PING, PONG, URLS, Upgrade, masked, tls_context

_LENGTH = struct.Struct("<I")
_MOST_INFLIGHT = 1 << 10  # requests without a reply, whatever the server permits


class Request(NamedTuple):
    """A request that was sent: its kind, its id, and where its reply comes."""

    kind: str
    rid: int
    reply: asyncio.Future[dict[str, Any]]


def _seen(reply: asyncio.Future[dict[str, Any]]) -> None:
    """Keeps asyncio from logging the exception of a reply that nobody awaits any more."""
    if not reply.cancelled():
        reply.exception()


class Session:
    """A session. Requests of different tasks may be outstanding at the same time, up to `limits["inflight"]`.

    Attributes:
        server: name and version of the server.
        sid: id of the session in the server's log.
        version: version of the protocol in this session, (major, minor).
        caps: optional parts of the protocol that the server has.
        limits: the server's limits, by the names of the protocol.
        local: whether the server is on this machine, so that both see the same files.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        websocket: bool,
        packer: Packer | None,
    ) -> None:
        """Wraps connected streams; `open_session` makes them and sends hello."""
        self._reader, self._writer, self._websocket = reader, writer, websocket
        self._packer = packer
        self._packs = False  # the server reads compressed frames
        self._timeout: float | None = None
        self._id = 0
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._slots = asyncio.Semaphore(1)
        self._end: KubernasiumError | None = None
        self._receiver = asyncio.create_task(self._receive_all())
        self.local = False
        self.server, self.sid = "", ""
        self.version: tuple[int, ...] = VERSION
        self.caps: frozenset[str] = frozenset()
        self.limits: dict[str, int] = {}

    async def hello(self, timeout: float | None) -> None:
        """Sends hello, and keeps the seconds to wait for each reply."""
        self._timeout = timeout
        welcome = await self.request("hello", ver=list(VERSION), client=CLIENT, caps=[ZSTD] if self._packer else None)
        self.checked(checks.welcomed, welcome)
        self.server, self.sid = str(welcome.get("server", "")), str(welcome.get("sid", ""))
        self.version = tuple(welcome.get("ver", VERSION))
        self.caps, self.limits = frozenset(welcome.get("caps", ())), welcome.get("limits", {})
        self._packs = ZSTD in self.caps
        for _ in range(min(self.limits.get("inflight", 1), _MOST_INFLIGHT) - 1):
            self._slots.release()

    async def request(self, kind: str, /, **fields: Any) -> dict[str, Any]:
        """Sends a request and returns its reply.

        Args:
            kind: `t` of the request.
            **fields: its other fields; None means absent.

        Raises:
            KubernasiumError: the server rejected it, or the connection is lost.
        """
        return await self.finish(await self.begin(kind, **fields))

    async def begin(self, kind: str, /, **fields: Any) -> Request:
        """Sends a request, whose reply `finish` returns."""
        await self._slots.acquire()
        try:
            request = self._send(kind, {key: value for key, value in fields.items() if value is not None})
        except BaseException:
            self._slots.release()
            raise
        # From here on the slot is the reply's, which comes even if this task is cancelled.
        request.reply.add_done_callback(lambda reply: self._slots.release())
        return request

    async def finish(self, request: Request) -> dict[str, Any]:
        """Returns the reply to a request. If its task is cancelled, so is the request, unless it ends at once."""
        try:
            await self._writer.drain()
            message = await asyncio.wait_for(asyncio.shield(request.reply), self._timeout)
        except asyncio.CancelledError:
            if "cancel" in self.caps and not request.reply.done():
                asyncio.get_running_loop().call_later(GRACE, self._cancel, request)
            raise
        except asyncio.TimeoutError:
            error = ReplyTimeoutError(f"no answer from the server within {self._timeout} s")
            self._fail(error)
            raise error from None
        except OSError as err:
            raise self._fail(ConnectionLostError(f"send to the server: {err}")) from err
        if message.get("t") == "err":
            raise from_reply(message)
        self.checked(partial(checks.replied, kind=request.kind), message)
        return message

    def checked(self, check: Callable[[dict[str, Any]], None], reply: dict[str, Any]) -> None:
        """Ends the connection and raises the error of a check if that finds a reply wrong."""
        try:
            check(reply)
        except ProtocolError as err:
            self._fail(err)
            raise

    def need(self, part: str) -> None:
        """Raises UnimplementedError if the server lacks an optional part of the protocol."""
        if part not in self.caps:
            raise missing(part, self.server, self.version)

    def _cancel(self, request: Request) -> None:
        """Cancels a request that has no reply. The reply to this is dropped."""
        if self._end is None and not request.reply.done():
            self._send("cancel", {"of": request.rid})

    def _send(self, kind: str, fields: dict[str, Any]) -> Request:
        if self._end is not None:
            raise type(self._end)(*self._end.args)
        self._id += 1
        frame = encode({"t": kind, "id": self._id, **fields})
        if self._packer and self._packs:
            frame = self._packer.pack(frame)
        head = b"" if self._websocket else _LENGTH.pack(len(frame))
        self._writer.write(masked(BINARY, frame) if self._websocket else head + frame)
        reply = asyncio.get_running_loop().create_future()
        reply.add_done_callback(_seen)
        self._replies[self._id] = reply
        return Request(kind, self._id, reply)

    async def _receive_all(self) -> None:
        try:
            while True:
                data = await (self._message() if self._websocket else self._frame())
                frame = decode((self._packer.unpack(data) if self._packer else None) or data)
                rid = frame.get("id")
                reply = self._replies.pop(rid, None) if type(rid) is int else None
                if reply is not None:
                    reply.set_result(frame)
                elif rid == 0 and frame.get("t") == "err":
                    raise from_reply(frame)
                elif rid:
                    raise ProtocolError(f"a reply with id {rid!r}, which no request has")
        except (OSError, EOFError) as err:
            self._fail(ConnectionLostError(f"the server closed the connection: {err}"))
        except KubernasiumError as err:
            self._fail(err)
        except asyncio.CancelledError:  # by `close`, or by the end of the event loop
            self._fail(ConnectionLostError("the event loop of the connection has ended"))
            raise

    async def _frame(self) -> bytes:
        size = _LENGTH.unpack(await self._reader.readexactly(4))[0]
        if size > MAX_FRAME:
            raise ProtocolError(f"a frame of {size} bytes")
        return await self._reader.readexactly(size)

    async def _message(self) -> bytes:
        """Returns the next WebSocket message and answers control frames before it."""
        parts: list[bytes] = []
        while True:
            first, size = await self._reader.readexactly(2)
            if size >= 126:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
            if size > MAX_FRAME:
                raise ProtocolError(f"a frame of {size} bytes")
            payload = await self._reader.readexactly(size)
            opcode = first & 0xF
            if opcode in (0, BINARY):
                parts.append(payload)
                if first & 0x80:
                    return b"".join(parts)
            elif opcode == PING:
                self._writer.write(masked(PONG, payload))
            elif opcode == CLOSE:
                raise ConnectionLostError(f"the server closed the connection: {int.from_bytes(payload[:2], 'big')}")

    def _fail(self, error: KubernasiumError) -> KubernasiumError:
        """Ends the connection, and with it all outstanding requests."""
        if self._end is None:
            self._end = error
            self._writer.close()
            replies, self._replies = self._replies, {}
            for reply in replies.values():
                if not reply.done():
                    reply.set_exception(type(error)(*error.args))
        return self._end

    async def close(self) -> None:
        """Ends the session and its environments. Further calls do nothing."""
        if self._end is None and self._websocket:
            self._writer.write(masked(CLOSE, struct.pack(">H", 1000)))
        self._fail(ClosedError("the connection is closed"))
        self._receiver.cancel()
        await asyncio.gather(self._receiver, return_exceptions=True)


S = TypeVar("S", bound=Session)


async def open_session(kind: type[S], url: str | None, token: str | None, timeout: float | None) -> S:
    """Connects and sends hello; the arguments are those of `aio.connect`, after the class of the session."""
    urls = urls_of(url)
    if urls and many(urls):
        raise ValueError(f"a session is with one server, not {len(urls)} URLs or {urls[0]!r}; aio.make takes several")
    if not urls:
        server = await asyncio.to_thread(default_server)
        urls, token = [server.url], server.token
    url = urls[0]
    parts = urlsplit(url)
    packer = Packer() if compresses(url) else None
    try:
        reader, writer = await asyncio.wait_for(_open(url, token), timeout)
    except asyncio.TimeoutError:
        raise ReplyTimeoutError(f"no answer from {parts.netloc or url} within {timeout} s") from None
    except (OSError, EOFError) as err:
        if isinstance(err, KubernasiumError):
            raise
        raise ConnectionLostError(f"connect to {url}: {err}") from err
    connection = kind(reader, writer, websocket=parts.scheme != "unix", packer=packer)
    connection.local = parts.scheme == "unix" or is_loopback(parts.hostname or "")
    try:
        await connection.hello(timeout)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _open(url: str, token: str | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return await asyncio.open_unix_connection(unquote(parts.netloc + parts.path))
    secure = parts.scheme in ("wss", "https")
    if not (secure or parts.scheme in ("ws", "http")) or not parts.hostname:
        raise ValueError(f"URL {url!r}, want {URLS}")
    upgrade = Upgrade(parts, token if token is not None else os.environ.get("KUBERNASIUM_TOKEN") or None)
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=tls_context() if secure else None
    )
    try:
        writer.write(upgrade.request)
        upgrade.check(await reader.readuntil(b"\r\n\r\n"))
    except BaseException:
        writer.close()
        raise
    return reader, writer
