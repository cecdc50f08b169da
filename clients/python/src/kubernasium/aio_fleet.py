"""The asyncio client on several servers: environments of the synchronous client, each in a thread of its own.

Spreading, resuming and rebuilding work as in `kubernasium.VectorEnv`. The thread waits for the servers, so the event
loop keeps running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from kubernasium.env import Env
from kubernasium.errors import ClosedError
from kubernasium.vector import VectorEnv


class FleetEnv:
    """One environment on one of several servers; another takes over. `aio.make` with several URLs makes it.

    Calls of concurrent tasks run one after another. If a task is cancelled, a call that has started still completes,
    and its result is dropped; the next call waits for its end.

    Attributes:
        observation_space: of Gymnasium.
        action_space: of Gymnasium.
        spec: the environment's description.
        num_envs: number of environments.
    """

    num_envs = 1

    def __init__(self, env: Any, thread: ThreadPoolExecutor) -> None:
        """Wraps environments that were made in the thread; `open_fleet` makes them."""
        self._env, self._thread, self._closed = env, thread, False
        self.spec: dict[str, Any] = env.vector.spec
        self._take_spaces()

    def _take_spaces(self) -> None:
        self.observation_space = self._env.observation_space
        self.action_space = self._env.action_space

    async def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._closed:
            raise ClosedError("the environment is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(function, *args, **kwargs))

    async def reset(self, *, seed: Any = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; see `kubernasium.Env.reset`."""
        return await self._call(self._env.reset, seed=seed, options=options)

    async def step(self, action: Any = None, *, policy: str | None = None, seed: int | None = None) -> Any:
        """Carries out an action, or lets a baseline step; see `kubernasium.Env.step`."""
        return await self._call(self._env.step, action, policy=policy, seed=seed)

    async def close(self) -> None:
        """Frees the environments, after the call that runs. Further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        ended = self._thread.submit(self._env.close)
        self._thread.shutdown(wait=False)
        await asyncio.wrap_future(ended)


class FleetVectorEnv(FleetEnv):
    """n environments on several servers, stepped concurrently, with the results of one server.

    Its methods are those of `aio.VectorEnv`; tasks share it as `FleetEnv` says.

    Attributes:
        single_observation_space: of Gymnasium, of one environment.
        single_action_space: likewise.
    """

    def _take_spaces(self) -> None:
        self.num_envs = self._env.num_envs
        self.single_observation_space = self._env.single_observation_space
        self.single_action_space = self._env.single_action_space

    @property
    def sizes(self) -> list[int]:
        """How many environments each server has."""
        return list(getattr(self._env.vector, "sizes", [self.num_envs]))

    async def send(self, actions: Any, env_ids: Sequence[int] | np.ndarray | None = None) -> None:
        """Is `kubernasium.VectorEnv.send`."""
        await self._call(self._env.send, actions, env_ids)

    async def recv(self, k: int = 1, *, most: int | None = None, timeout: float | None = None) -> Any:
        """Is `kubernasium.VectorEnv.recv`."""
        return await self._call(self._env.recv, k, most=most, timeout=timeout)


async def open_fleet(
    env_id: str,
    num_envs: int | None,
    weights: Sequence[float] | None,
    *,
    autoreset_mode: str = "NEXT_STEP",
    threads: int | None = None,
    **arguments: Any,
) -> FleetEnv | FleetVectorEnv:
    """Makes environments on several servers; the arguments are those of `aio.make`, some of a vector only."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="kubernasium")
    if num_envs is None:
        make: Callable[[], Any] = partial(Env, env_id, **arguments)
    else:
        vector: dict[str, Any] = {
            "autoreset_mode": AutoresetMode[autoreset_mode],
            "threads": threads,
            "weights": weights,
        }
        make = partial(VectorEnv, env_id, num_envs, **vector, **arguments)
    made: Future[Any] = thread.submit(make)
    try:
        env = await asyncio.wrap_future(made)
    except BaseException:
        made.add_done_callback(_closed)  # it may be made yet, for nobody
        thread.shutdown(wait=False)
        raise
    return FleetEnv(env, thread) if num_envs is None else FleetVectorEnv(env, thread)


def _closed(made: Future[Any]) -> None:
    """Closes environments that were made, if they were."""
    if not made.cancelled() and made.exception() is None:
        made.result().close()
