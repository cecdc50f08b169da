"""An asyncio client: many environments of one connection, stepped by concurrent tasks.

    async with aio.connect() as connection:
        envs = [await connection.make("k8s/GangWindow-v0") for _ in range(4)]
        await asyncio.gather(*(play(env) for env in envs))

    async with aio.make("k8s/GangWindow-v0", num_envs=16) as envs:
        obs, infos = await envs.reset(seed=0)

The server carries out the requests of one connection one after another. Environments that are to be stepped at
the same time get connections of their own.

A cancelled task leaves the connection usable. Its request has a tenth of a second to end by itself, and then was
carried out, though nobody gets the reply. Otherwise it is cancelled at the server, too; after a `reset` or a step that
was cancelled while it ran, reset again. Lost connections are not resumed here: a lost one raises `ConnectionLostError`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from kubernasium.batch import Batches
from kubernasium.errors import (
    ClosedError,
    ConnectionLostError,
    KubernasiumError,
    ProtocolError,
    ReplyTimeoutError,
    UnavailableError,
    from_reply,
)
from kubernasium.launcher import default_server
from kubernasium.protocol.codec import decode, encode
from kubernasium.protocol.connection import CLIENT, DEFAULT_TIMEOUT, GRACE, VERSION, is_loopback, missing
from kubernasium.protocol.send_recv import indices
from kubernasium.protocol.transport import MAX_FRAME
from kubernasium.protocol.vector import contiguous, made_with, plain, working_directory
from kubernasium.protocol.websocket import BINARY, CLOSE, PING, PONG, Upgrade, masked
from kubernasium.row import pick
from kubernasium.spaces import from_description

_LENGTH = struct.Struct("<I")


class Connection:
    """A session. Requests of different tasks may be outstanding at the same time, up to `limits["inflight"]`.

    Attributes:
        server: name and version of the server.
        sid: id of the session in the server's log.
        version: version of the protocol in this session, (major, minor).
        caps: optional parts of the protocol that the server has.
        limits: the server's limits, by the names of the protocol.
        local: whether the server is on this machine, so that both see the same files.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, websocket: bool) -> None:
        """Wraps connected streams; `connect` makes them and says hello."""
        self._reader, self._writer, self._websocket = reader, writer, websocket
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
        """Says hello, and keeps the seconds to wait for each reply."""
        self._timeout = timeout
        welcome = await self.request("hello", ver=list(VERSION), client=CLIENT)
        self.server, self.sid = str(welcome.get("server", "")), str(welcome.get("sid", ""))
        self.version = tuple(welcome.get("ver", VERSION))
        self.caps, self.limits = frozenset(welcome.get("caps", ())), welcome.get("limits", {})
        for _ in range(self.limits.get("inflight", 1) - 1):
            self._slots.release()

    async def request(self, kind: str, /, **fields: Any) -> dict[str, Any]:
        """Sends a request and returns its reply.

        Args:
            kind: `t` of the request.
            **fields: its other fields; None means absent.

        Raises:
            KubernasiumError: the server refused it, or the connection is lost.
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
        return message

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
        head = b"" if self._websocket else _LENGTH.pack(len(frame))
        self._writer.write(masked(BINARY, frame) if self._websocket else head + frame)
        reply = asyncio.get_running_loop().create_future()
        reply.add_done_callback(_seen)
        self._replies[self._id] = reply
        return Request(self._id, reply)

    async def _receive_all(self) -> None:
        try:
            while True:
                frame = decode(await (self._message() if self._websocket else self._frame()))
                rid = frame.get("id")
                reply = self._replies.pop(rid, None) if isinstance(rid, int) else None
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

    async def make(
        self,
        env_id: str,
        num_envs: int | None = None,
        *,
        autoreset_mode: str = "NEXT_STEP",
        max_episode_steps: int | None = None,
        threads: int | None = None,
        env_error: bool = False,
        obs_keys: Sequence[str] | None = None,
        **options: Any,
    ) -> Env | VectorEnv:
        """Makes environments of this session.

        Args:
            env_id: their id at the server.
            num_envs: how many, for a `VectorEnv`; None makes one `Env`.
            autoreset_mode: of a `VectorEnv`: `"NEXT_STEP"`, `"SAME_STEP"` or `"DISABLED"`.
            max_episode_steps: time limit in place of the environment's.
            threads: for the server to step with; it changes no result.
            env_error: as of `kubernasium.VectorEnv`.
            obs_keys: likewise.
            **options: the environment's options.

        Raises:
            InvalidOptionError: an option is unknown or out of range.
            UnknownEnvError: the server has no such environment.
            UnimplementedError: the server is too old for `env_error` or `obs_keys`.
        """
        parts = made_with(env_error, obs_keys)
        for part in parts:
            self.need(part)
        made = await self.request(
            "make",
            env=env_id,
            n=num_envs or 1,
            options=plain(options) if options else None,
            autoreset="DISABLED" if num_envs is None else autoreset_mode,
            max_episode_steps=max_episode_steps,
            threads=threads,
            cwd=working_directory() if options and self.local else None,
            **parts,
        )
        return Env(self, made) if num_envs is None else VectorEnv(self, made)


class Request(NamedTuple):
    """A request that was sent: its id, and where its reply comes."""

    rid: int
    reply: asyncio.Future[dict[str, Any]]


def _seen(reply: asyncio.Future[dict[str, Any]]) -> None:
    """Keeps asyncio from complaining about the exception of a reply that nobody waits for any more."""
    if not reply.cancelled():
        reply.exception()


class _Remote:
    """What `Env` and `VectorEnv` share.

    Attributes:
        connection: the session.
        eid: number of the vector in it.
        spec: the environment's description.
        num_envs: number of environments.
    """

    owns = False  # the connection, which is closed with the environments

    def __init__(self, connection: Connection, made: Mapping[str, Any]) -> None:
        self.connection = connection
        self.eid: int = made["eid"]
        self.spec: dict[str, Any] = made["spec"]
        self.num_envs: int = made["n"]
        self._batches = Batches(self.num_envs, made["mask"])
        self._closed = False

    async def _request(self, kind: str, **fields: Any) -> dict[str, Any]:
        if self._closed:
            raise ClosedError("the environment is closed")
        return await self.connection.request(kind, eid=self.eid, **fields)

    async def _reset(self, seed: Any, options: Mapping[str, Any] | None, mask: Any = None) -> dict[str, Any]:
        if isinstance(seed, (Sequence, np.ndarray)):
            seed = list(seed)
        return await self._request("reset", seed=seed, options=plain(options) if options else None, mask=mask)

    async def _step(self, actions: Any, policy: str | None, seed: int | None) -> dict[str, Any]:
        if (actions is None) == (policy is None):
            raise TypeError("step takes an action, or a policy that acts")
        if policy is not None:
            self.connection.need("baseline")
        return await self._request("step", a=actions, policy=policy, seed=seed)

    async def close(self) -> None:
        """Frees the environments, and the connection if it was made for them. Further calls do nothing."""
        if self._closed:
            return
        if not self.owns:
            await self._request("close")
        self._closed = True
        if self.owns:
            await self.connection.close()


class Env(_Remote):
    """One environment; `reset` and `step` return what those of `kubernasium.Env` do.

    Attributes:
        observation_space: of Gymnasium.
        action_space: of Gymnasium.
    """

    def __init__(self, connection: Connection, made: Mapping[str, Any]) -> None:
        """Wraps the reply to `make`."""
        super().__init__(connection, made)
        self.observation_space = from_description(made["obs_space"])
        self.action_space = from_description(made["act_space"])

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; see `kubernasium.Env.reset`."""
        reply = await self._reset(seed, options)
        return pick(reply["obs"], 0), self._info(reply)

    async def step(
        self, action: Any = None, *, policy: str | None = None, seed: int | None = None
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carries out an action, or lets a baseline step; see `kubernasium.Env.step`."""
        batch = None if action is None else contiguous(_batch(action))
        reply = await self._step(batch, policy, seed)
        flags = (bool(reply[key][0]) if key in reply else False for key in ("te", "tr"))
        return pick(reply["obs"], 0), float(reply["r"][0]), *flags, self._info(reply)

    def _info(self, reply: dict[str, Any]) -> dict[str, Any]:
        info: dict[str, Any] = {key: column[0].item() for key, column in reply.get("info", {}).items() if key[0] != "_"}
        if "inv" in reply and reply["inv"][0]:
            info["invalid"] = True
        if "env_error" in reply:
            info["env_error"] = reply["env_error"]["msg"][0]
        if size := self._batches.mask_size:
            info["action_mask"] = reply["mask"][0] if "mask" in reply else np.ones(size, np.int8)
        return info


class VectorEnv(_Remote):
    """n environments; `reset` and `step` return what those of `kubernasium.VectorEnv` do.

    Attributes:
        single_observation_space: of Gymnasium, of one environment.
        single_action_space: likewise.
    """

    def __init__(self, connection: Connection, made: Mapping[str, Any]) -> None:
        """Wraps the reply to `make`."""
        super().__init__(connection, made)
        self.single_observation_space = from_description(made["obs_space"])
        self.single_action_space = from_description(made["act_space"])
        self._interrupted: list[Request] = []  # calls of recv that were cancelled, whose replies may hold rows

    async def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in each environment; see `kubernasium.VectorEnv.reset`."""
        options = dict(options or {})
        chosen = options.pop("reset_mask", None)
        reply = await self._reset(seed, options, chosen)
        self._interrupted.clear()
        return reply["obs"], self._batches.infos(reply, chosen)

    async def step(
        self, actions: Any = None, *, policy: str | None = None, seed: int | None = None
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Carries out actions, or lets a baseline step; see `kubernasium.VectorEnv.step`."""
        reply = await self._step(None if actions is None else contiguous(actions), policy, seed)
        return self._batches.stepped(reply)

    async def send(self, actions: Any, env_ids: Sequence[int] | np.ndarray | None = None) -> None:
        """Begins a step in some environments, and returns at once; see `kubernasium.VectorEnv.send`."""
        self.connection.need("async")
        await self._request("send", a=contiguous(actions), idx=None if env_ids is None else indices(env_ids))

    async def recv(
        self, k: int = 1, *, most: int | None = None, timeout: float | None = None
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Waits for k of the steps that `send` began; see `kubernasium.VectorEnv.recv`.

        Requests of other environments of the same connection wait meanwhile. A cancelled task loses no step: the next
        `recv` returns what has ended.
        """
        if self._closed:
            raise ClosedError("the environment is closed")
        self.connection.need("async")
        while self._interrupted:
            try:
                return self._batches.received(await self._received(self._interrupted.pop(0)))
            except UnavailableError as err:
                if err.code != "CANCELLED":
                    raise
        wait = None if timeout is None else int(timeout * 1e3)
        most = k if most is None else most
        request = await self.connection.begin("recv", eid=self.eid, min=k, max=most, wait_ms=wait)
        return self._batches.received(await self._received(request))

    async def _received(self, request: Request) -> dict[str, Any]:
        """Returns the reply to a `recv`, which the next call returns if this one is cancelled."""
        try:
            return await self.connection.finish(request)
        except asyncio.CancelledError:
            self._interrupted.append(request)
            raise


def _batch(action: Any) -> Any:
    if isinstance(action, Mapping):
        return {key: _batch(part) for key, part in action.items()}
    return np.asarray(action)[np.newaxis]


class _Opening:
    """Something to await, or to enter as an async context manager."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def __await__(self) -> Generator[Any, None, Any]:
        return self._opened.__await__()

    async def __aenter__(self) -> Any:
        self._object = await self._opened
        return self._object

    async def __aexit__(self, *exc: object) -> None:
        await self._object.close()


def connect(url: str | None = None, *, token: str | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> Any:
    """Opens a session: `await` it, or use it in `async with`.

    Args:
        url: `unix:/path`, `ws://host:port` or `wss://host:port`; by default KUBERNASIUM_URL or the bundled server.
        token: bearer token of a WebSocket server; by default KUBERNASIUM_TOKEN.
        timeout: seconds to wait for each reply, or None to wait without end.

    Returns:
        A `Connection`.

    Raises:
        ConnectionLostError: nobody answers there.
        UnauthenticatedError: the token is wrong or missing.
    """
    return _Opening(_connect(url, token, timeout))


def make(
    env_id: str,
    num_envs: int | None = None,
    *,
    url: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    **arguments: Any,
) -> Any:
    """Makes environments with a connection of their own: `await` it, or use it in `async with`.

    Args:
        env_id: their id at the server.
        num_envs: how many, for a `VectorEnv`; None makes one `Env`.
        url: see `connect`.
        timeout: see `connect`.
        **arguments: those of `Connection.make`, the environment's options among them.
    """
    return _Opening(_make(env_id, num_envs, url, timeout, arguments))


async def _make(
    env_id: str, num_envs: int | None, url: str | None, timeout: float | None, arguments: dict[str, Any]
) -> Env | VectorEnv:
    connection = await _connect(url, None, timeout)
    try:
        made = await connection.make(env_id, num_envs, **arguments)
    except BaseException:
        await connection.close()
        raise
    made.owns = True
    return made


async def _connect(url: str | None, token: str | None, timeout: float | None) -> Connection:
    url = url or os.environ.get("KUBERNASIUM_URL") or None
    if url is None:
        server = await asyncio.to_thread(default_server)
        url, token = server.url, server.token
    parts = urlsplit(url)
    try:
        reader, writer = await asyncio.wait_for(_open(url, token), timeout)
    except asyncio.TimeoutError:
        raise ReplyTimeoutError(f"no answer from {parts.netloc or url} within {timeout} s") from None
    except (OSError, EOFError) as err:
        if isinstance(err, KubernasiumError):
            raise
        raise ConnectionLostError(f"connect to {url}: {err}") from err
    connection = Connection(reader, writer, websocket=parts.scheme != "unix")
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
        raise ValueError(f"{url!r} is not a WebSocket URL such as ws://127.0.0.1:8080")
    upgrade = Upgrade(parts, token if token is not None else os.environ.get("KUBERNASIUM_TOKEN") or None)
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=ssl.create_default_context() if secure else None
    )
    try:
        writer.write(upgrade.request)
        upgrade.check(await reader.readuntil(b"\r\n\r\n"))
    except BaseException:
        writer.close()
        raise
    return reader, writer
