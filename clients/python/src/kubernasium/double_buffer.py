"""Collects with a vector in parts: the policy computes actions for one part while the others step.

    with DoubleBuffer("k8s/GangWindow-v0", 64) as envs:
        envs.async_reset(seed=0)
        for _ in range(1000):
            obs, rewards, terminations, truncations, infos = envs.recv()
            envs.send(policy(obs))

In a plain loop the learner waits for the server, and the server for the learner. Here both work concurrently. The
trajectories are those of one vector with the same seeds.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kubernasium.errors import NoPendingStepError, PendingStepError
from kubernasium.protocol.values import copied
from kubernasium.vector import VectorEnv

T = TypeVar("T")


class DoubleBuffer:
    """n environments at a server in parts that are stepped in turn.

    `send` and `recv` are in the style of EnvPool: `recv` returns the results of the part that has waited longest, with
    its environments in `infos["env_id"]`. `send` takes their actions.

    Attributes:
        parts: the vectors, each with a session of its own.
        num_envs: n.
        single_observation_space: of Gymnasium, of one environment.
        single_action_space: likewise.
    """

    def __init__(self, env_id: str, num_envs: int, *, parts: int = 2, **kwargs: Any) -> None:
        """Makes the environments.

        Args:
            env_id: their id at the server.
            num_envs: n.
            parts: in how many parts.
            **kwargs: arguments of `VectorEnv`, the environment's options among them. With `copy=False`, `recv` may
                return memory that the second next `send` for the same environments overwrites.

        Raises:
            ValueError: there are fewer environments than parts, or no parts.
        """
        if not 1 <= parts <= num_envs:
            raise ValueError(f"{parts} parts of {num_envs} environments, want 1 to {num_envs}")
        bounds = [num_envs * i // parts for i in range(parts + 1)]
        self.num_envs = num_envs
        self._rows = [np.arange(low, high) for low, high in itertools.pairwise(bounds)]
        self.parts: list[VectorEnv] = []
        try:
            for rows in self._rows:
                self.parts.append(VectorEnv(env_id, len(rows), **kwargs))
        except BaseException:
            self.close()
            raise
        self._copies = kwargs.get("copy", True)
        self.single_observation_space = self.parts[0].single_observation_space
        self.single_action_space = self.parts[0].single_action_space
        self._first: dict[int, tuple[Any, dict[str, Any]]] = {}  # of parts that were reset: what to receive
        self._stepping: deque[int] = deque()  # parts whose results were not received, in the order of their actions
        self._turn: int | None = None  # the part that waits for its actions

    def async_reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        """Starts an episode in each environment; `recv` returns the first observations, part by part.

        Args:
            seed: s gives environment i the random seed s+i; a sequence gives each its own.
            options: the environment's reset options.

        Steps that are not received are dropped.

        Raises:
            ValueError: a sequence of seeds has another length than there are environments.
        """
        if isinstance(seed, (Sequence, np.ndarray)) and len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds for {self.num_envs} environments")
        while self._stepping:
            part = self._stepping.popleft()
            if part not in self._first:
                self.parts[part].step_wait()
        self._turn = None
        for part, rows in enumerate(self._rows):
            low = int(rows[0])
            if isinstance(seed, (Sequence, np.ndarray)):
                own: Any = list(seed[low : low + len(rows)])
            else:
                own = None if seed is None else seed + low
            self._first[part] = self.parts[part].reset(seed=own, options=options)
            self._stepping.append(part)

    def recv(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Returns the results of the oldest `send`, or of the reset.

        Returns:
            Observations, rewards (float64), terminations and truncations (bool), all with the rows of one part, and
            infos with their numbers in `env_id` (int64). Rewards and flags of a reset are zero.

        Raises:
            NoPendingStepError: no part steps.
        """
        if self._turn is not None:
            raise PendingStepError("recv before send: a part waits for its actions")
        if not self._stepping:
            raise NoPendingStepError("recv without async_reset")
        part = self._stepping[0]
        n = len(self._rows[part])
        if part in self._first:
            obs, infos = self._first.pop(part)
            result = (obs, np.zeros(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_), infos)
        else:
            result = self.parts[part].step_wait()
        self._turn = self._stepping.popleft()
        result[4]["env_id"] = self._rows[part]
        return result

    def send(self, actions: Any) -> None:
        """Starts a step of the part that `recv` has returned last, and returns at once.

        Args:
            actions: a batch of actions with its rows.

        Raises:
            NoPendingStepError: no part waits for actions.
        """
        if self._turn is None:
            raise NoPendingStepError("send before recv")
        self.parts[self._turn].step_async(actions)
        self._stepping.append(self._turn)
        self._turn = None

    def collect(self, policy: Callable[[Any, dict[str, Any]], Any], steps: int) -> dict[str, Any]:
        """Takes that many steps of all environments. It continues where the last call stopped.

        Args:
            policy: returns a batch of actions for observations and infos of one part; `infos["env_id"]` has its rows.
            steps: T. `async_reset` must have come before.

        Returns:
            Arrays of shape (T, n, ...): `obs` before the action, `actions`, `rewards`, `terminations` and `truncations`
            after it; and `last_obs` of shape (n, ...), which the last steps led to. Dicts of arrays where the space
            is a Dict.
        """
        count = len(self.parts)
        columns: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
        acted: list[tuple[Any, Any] | None] = [None] * count
        last: list[Any] = [None] * count
        waiting: dict[int, tuple[Any, ...]] = {}
        for _ in range(count * (steps + 1)):
            result = self.recv()
            part = self._turn
            assert part is not None
            if (before := acted[part]) is not None:
                columns[part].append((*before, *result[1:4]))
            if len(columns[part]) == steps:
                last[part], waiting[part], self._turn = result[0], result, None
                continue
            actions = policy(result[0], result[4])
            acted[part] = (result[0] if self._copies else copied(result[0]), actions)
            self.send(actions)
        for part in range(count):  # for the next call, as if they were received then
            result = waiting[part]
            self._first[part] = (result[0], result[4])
            self._stepping.append(part)
        names = ("obs", "actions", "rewards", "terminations", "truncations")
        out = {
            name: _joined([_stacked([row[k] for row in column]) for column in columns], 1)
            for k, name in enumerate(names)
        }
        out["last_obs"] = _joined(last, 0)
        return out

    def close(self) -> None:
        """Closes all sessions at the server. Further calls do nothing."""
        for part in self.parts:
            part.close()

    def __enter__(self: T) -> T:
        """Returns the environments themselves, which are closed at the end of the block."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Closes the environments."""
        self.close()


def _stacked(values: list[Any]) -> Any:
    """Returns batches of equal shape with a new first axis."""
    if isinstance(values[0], Mapping):
        return {key: _stacked([value[key] for value in values]) for key in values[0]}
    return np.stack([np.asarray(value) for value in values])


def _joined(values: list[Any], axis: int) -> Any:
    """Returns parts side by side."""
    if isinstance(values[0], Mapping):
        return {key: _joined([value[key] for value in values], axis) for key in values[0]}
    return np.concatenate(values, axis)
