"""An asyncio client: many environments of one connection, stepped by concurrent tasks.

    async with aio.connect() as connection:
        envs = [await connection.make("k8s/GangWindow-v0") for _ in range(4)]
        await asyncio.gather(*(play(env) for env in envs))

    async with aio.make("k8s/GangWindow-v0", num_envs=16) as envs:
        obs, infos = await envs.reset(seed=0)

The server carries out the requests of one connection one after another. Environments that should step concurrently need
separate connections.

A cancelled task leaves the connection usable. If its request ends within a tenth of a second, it has taken effect, but
its reply is dropped. Otherwise it is cancelled at the server, too; after a `reset` or a step that was cancelled while
it ran, reset again. A lost connection raises `ConnectionLostError`. The client sends no pings: a server ends a session
that makes no request for its limit `idle_ms`, by default ten minutes.

`aio.make` with several URLs spreads a vector over their servers, and survives the loss of any of them:

    async with aio.make("k8s/GangWindow-v0", num_envs=16, url=["ws://a:8765", "ws://b:8765"]) as envs:
        ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from kubernasium.aio_fleet import open_fleet
from kubernasium.aio_session import Request, Session, open_session
from kubernasium.batch import Batches
from kubernasium.errors import ClosedError, UnavailableError
from kubernasium.launcher import urls_of
from kubernasium.protocol import checks
from kubernasium.protocol.connection import DEFAULT_TIMEOUT
from kubernasium.protocol.dial import many
from kubernasium.protocol.resume import DEFAULT_RECONNECT
from kubernasium.protocol.send_recv import indices
from kubernasium.protocol.values import batch_of_one, contiguous, made_with, plain, working_directory
from kubernasium.row import pick
from kubernasium.spaces import from_description


class Connection(Session):
    """A session, and its environments."""

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
            n=1 if num_envs is None else num_envs,
            options=plain(options) if options else None,
            autoreset="DISABLED" if num_envs is None else autoreset_mode,
            max_episode_steps=max_episode_steps,
            threads=threads,
            cwd=working_directory() if options and self.local else None,
            **parts,
        )
        n, mode = (1, "DISABLED") if num_envs is None else (num_envs, autoreset_mode)
        self.checked(lambda reply: checks.made(reply, n, mode), made)
        return Env(self, made) if num_envs is None else VectorEnv(self, made)


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
        self._checks = checks.Batches(made)
        self._closed = False

    async def _request(self, kind: str, **fields: Any) -> dict[str, Any]:
        if self._closed:
            raise ClosedError("the environment is closed")
        return self._checked(await self.connection.request(kind, eid=self.eid, **fields), kind)

    def _checked(self, reply: dict[str, Any], kind: str) -> dict[str, Any]:
        self.connection.checked(lambda reply: self._checks.check(reply, kind), reply)
        return reply

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
        batch = None if action is None else batch_of_one(action)
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
        `recv` returns the steps that have ended.
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
            return self._checked(await self.connection.finish(request), "recv")
        except asyncio.CancelledError:
            self._interrupted.append(request)
            raise


class _Opening:
    """An object to await, or to use as an async context manager."""

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
    return _Opening(open_session(Connection, url, token, timeout))


def make(
    env_id: str,
    num_envs: int | None = None,
    *,
    url: str | Sequence[str] | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    weights: Sequence[float] | None = None,
    reconnect: float | None = None,
    **arguments: Any,
) -> Any:
    """Makes environments with a connection of their own: `await` it, or use it in `async with`.

    Args:
        env_id: their id at the server.
        num_envs: how many, for a `VectorEnv`; None makes one `Env`.
        url: see `connect`; or several, or `k8s+dns://name:port` for the servers behind a host name. A vector is spread
            over them, with the results of one server, and the others replace a lost one, as in `gymnasium.make_vec`.
            The classes are then `aio_fleet.FleetVectorEnv` and `FleetEnv`, with the same methods.
        timeout: see `connect`.
        weights: relative speeds of several servers; None measures them.
        reconnect: seconds for which to reconnect after a lost connection, without losing state; by default 60 with
            several URLs, and 0 (never) with one.
        **arguments: those of `Connection.make`, the environment's options among them.
    """
    urls = urls_of(url)
    if reconnect or (urls and many(urls)):
        again = DEFAULT_RECONNECT if reconnect is None else reconnect
        return _Opening(open_fleet(env_id, num_envs, weights, url=url, timeout=timeout, reconnect=again, **arguments))
    return _Opening(_make(env_id, num_envs, urls[0] if urls else None, timeout, arguments))


async def _make(
    env_id: str, num_envs: int | None, url: str | None, timeout: float | None, arguments: dict[str, Any]
) -> Env | VectorEnv:
    connection = await open_session(Connection, url, None, timeout)
    try:
        made = await connection.make(env_id, num_envs, **arguments)
    except BaseException:
        await connection.close()
        raise
    made.owns = True
    return made
