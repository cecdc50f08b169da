"""Wrappers for libraries that read the action mask from the observation."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from kubernasium.errors import InvalidOptionError


class ActionMaskObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Observations become a Dict of the observation and its action mask.

    Gymnasium has the mask in `info["action_mask"]`, but RLlib and Tianshou pass observations
    alone to their networks. `kubernasium.rllib` and `kubernasium.tianshou` use this wrapper under
    the keys of those libraries.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], obs_key: str = "observations", mask_key: str = "action_mask"
    ) -> None:
        """Wraps env.

        Args:
            env: an environment of this package, in wrappers or bare.
            obs_key: of the observation in the Dict.
            mask_key: of the mask, a Box(0, 1) of shape (A,) and dtype float32; 1 is permitted.

        Raises:
            InvalidOptionError: the environment has no action mask.
        """
        RecordConstructorArgs.__init__(self, obs_key=obs_key, mask_key=mask_key)
        gymnasium.ObservationWrapper.__init__(self, env)
        size = env.get_wrapper_attr("vector").mask_size
        if size == 0:
            raise InvalidOptionError(f"{env} has no action mask; its action space is {env.action_space}")
        self._keys = obs_key, mask_key
        self.observation_space = spaces.Dict(
            [(obs_key, env.observation_space), (mask_key, spaces.Box(0, 1, (size,), np.float32))]
        )

    def observation(self, observation: Any) -> dict[str, Any]:
        """Returns observation with the mask that came with it."""
        obs_key, mask_key = self._keys
        return {obs_key: observation, mask_key: self.env.get_wrapper_attr("action_masks")().astype(np.float32)}


def make_masked(env_id: str, obs_key: str, mask_key: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Makes an environment whose observations are a flat array and its action mask, under these keys."""
    env = gymnasium.make(env_id, **kwargs)
    if isinstance(env.observation_space, spaces.Dict):
        env = gymnasium.wrappers.FlattenObservation(env)
    return ActionMaskObservation(env, obs_key, mask_key)
