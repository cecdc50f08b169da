"""The common part of `Env`, `VectorEnv` and the VecEnv of `sb3`: a vector at a server, remade if it is lost."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from kubernasium.errors import ConnectionLostError, InvalidOptionError, NotCopiedError, ReplyTimeoutError
from kubernasium.launcher import open_connection, urls_of
from kubernasium.protocol.dial import many, resolve
from kubernasium.protocol.resume import DEFAULT_RECONNECT
from kubernasium.protocol.speeds import apportioned, measured
from kubernasium.protocol.spread import Spread, spread
from kubernasium.protocol.vector import Vector
from kubernasium.spec_info import SpecInfo, spec_info

T = TypeVar("T")
AnyVector = Vector | Spread

RENDER_FPS = 10
NO_LIMIT = 1 << 31  # steps: a time limit that no episode reaches


class Session:
    """The address of a vector and the arguments that made it."""

    def __init__(
        self,
        url: str | Sequence[str] | None,
        timeout: float | None,
        env_id: str,
        num_envs: int = 1,
        *,
        reconnect: float = DEFAULT_RECONNECT,
        weights: Sequence[float] | None = None,
        **arguments: Any,
    ) -> None:
        """Keeps the arguments of `launcher.open_connection` and of `Vector`, and the weights of several servers."""
        self._url, self._timeout, self._reconnect = url, timeout, reconnect
        self._env_id, self._num_envs, self._arguments = env_id, num_envs, arguments
        self._weights = weights

    def open(self, render_mode: str | None = None) -> AnyVector:
        """Connects and makes the vector, a part on each server if there are several.

        Args:
            render_mode: how it is to be rendered, or None.

        Raises:
            InvalidOptionError: the environment lacks that render mode.
        """
        urls = urls_of(self._url)
        vector = self._spread(urls) if self._num_envs > 1 and urls and many(urls) else self._make(self._num_envs)
        modes = list(vector.spec["render_modes"])
        if render_mode is not None and render_mode not in modes:
            vector.connection.close()
            raise InvalidOptionError(f"{self._env_id} has the render modes {modes}, not {render_mode!r}")
        return vector

    def _make(
        self,
        n: int,
        urls: Sequence[str] | None = None,
        first: str = "",
        reconnect: float | None = None,
        **changed: Any,
    ) -> Vector:
        """Connects to a server and makes n environments."""
        connection = open_connection(
            urls or self._url,
            timeout=self._timeout,
            reconnect=self._reconnect if reconnect is None else reconnect,
            first=first,
        )
        try:
            return Vector(connection, self._env_id, n, **self._arguments | changed)
        except BaseException:
            connection.close()
            raise

    def _costly(self) -> bool:
        """Reports whether environments are too costly to make for a measurement, such as those on an API server."""
        spec = gymnasium.registry.get(self._env_id)
        return spec is not None and spec.nondeterministic

    def _spread(self, urls: list[str]) -> AnyVector:
        """Makes a part on each server, with environments in proportion to its speed."""
        servers, n = resolve(urls), self._num_envs
        if self._weights is not None:
            weights = list(self._weights)
            if len(weights) != len(servers) or min(weights) < 0 or max(weights) <= 0:
                raise ValueError(
                    f"weights {weights} for {len(servers)} servers, want a positive one for each, or 0 for none"
                )
        elif len(servers) == 1 or self._costly():
            weights = [1.0] * len(servers)
        else:
            share = -(-n // len(servers))
            probe = partial(self._make, share, reconnect=0.0, autoreset="SAME_STEP")
            weights = measured([partial(probe, urls=[server]) for server in servers])
        # The parts' observations are joined, which copies them; and what a reset leaves alone must last.
        makers = [partial(self._make, urls=[server, *urls], first=server, copy=True) for server in servers]
        return spread(makers, apportioned(n, weights))

    def reset(
        self, vector: AnyVector, *, mask: np.ndarray | None = None, **fields: Any
    ) -> tuple[AnyVector, dict[str, Any]]:
        """Resets a vector, or another one like it if its connection was lost.

        Args:
            vector: the vector.
            mask: which environments to reset. The others are lost with the connection, so that a
                loss is an error then.
            **fields: further arguments of `Vector.reset`.

        Returns:
            The vector that was reset, and the reply.

        Raises:
            ConnectionLostError: the server cannot be reached again, or is lost again.
        """
        connection = vector.connection
        if not connection.closed:
            try:
                return vector, vector.reset(mask=mask, **fields)
            except ReplyTimeoutError:
                raise  # the same request would most likely take as long again
            except ConnectionLostError:
                if mask is not None:
                    raise
        if not connection.lost:
            raise connection.ended()
        if mask is not None:
            raise ConnectionLostError(f"{connection.ended()}, but of all environments: leave out options['reset_mask']")
        if isinstance(vector, Spread):
            connection.close()  # the other sessions
        vector = self.open()
        return vector, vector.reset(**fields)


class AtServer:
    """The common part of the environments of each interface.

    Attributes:
        vector: the environments in terms of the protocol.
    """

    vector: AnyVector
    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """The specification, with the time limit that the server keeps."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = _with_limit(spec, self.vector.max_episode_steps)

    @property
    def spec_info(self) -> SpecInfo:
        """Options, diagnostics, baselines, and a name for each element of an observation."""
        return spec_info(self.vector)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raises the error of `pickle` and `copy`."""
        raise _not_copied(self)

    def __enter__(self: T) -> T:
        """Returns the environments themselves, which are closed at the end of the block."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Closes the environments."""
        self.close()  # type: ignore[attr-defined]  # of the interface


def _with_limit(spec: EnvSpec | None, limit: int) -> EnvSpec | None:
    """Returns a specification with the time limit that the server keeps, if it names none.

    Options of an environment decide its limit, so the registry does not know it.

    Args:
        spec: of the registry.
        limit: in steps; 0 and `NO_LIMIT` are none.
    """
    if spec is None or spec.max_episode_steps is not None or limit in (0, NO_LIMIT):
        return spec
    spec = copy.copy(spec)
    spec.max_episode_steps = limit
    return spec


def _not_copied(env: Any) -> NotCopiedError:
    """Returns the error of `pickle` and `copy`."""
    return NotCopiedError(
        f"{type(env).__name__} cannot be pickled or copied, for its state is at the server: snapshot() keeps it "
        "there, restore() returns to it, and gymnasium.make(env.spec) makes a new environment"
    )
