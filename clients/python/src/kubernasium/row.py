"""Single environments of a vector, for `VectorEnv.call`."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

if TYPE_CHECKING:
    from kubernasium.vector import VectorEnv


class Row:
    """One environment of a vector, for `VectorEnv.call`."""

    def __init__(self, envs: VectorEnv, index: int) -> None:
        """Stands for environment index of envs."""
        self._envs, self._index = weakref.proxy(envs), index

    @property
    def render_mode(self) -> str | None:
        """How `render` renders."""
        return self._envs.render_mode

    @property
    def spec(self) -> EnvSpec | None:
        """The specification of the vector."""
        return self._envs.spec

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the vector."""
        return self._envs.metadata

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of one environment's observations."""
        return self._envs.single_observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """The space of one environment's actions."""
        return self._envs.single_action_space

    def action_masks(self) -> np.ndarray:
        """Returns the action mask of the last observation, bool of shape (A,)."""
        return self._envs.action_masks()[self._index]

    def render(self) -> Any:
        """Returns a frame as `render_mode` says, or None without one."""
        mode = self._envs.render_mode
        return None if mode is None else self._envs.vector.render(self._index, mode)


def pick(batch: Any, k: int) -> Any:
    """Returns row k of a batch of observations."""
    if isinstance(batch, dict):
        return {key: pick(part, k) for key, part in batch.items()}
    return batch[k]
