"""Environments at a server for RLlib's new API stack: whole vectors, action masks, Dict observations, and lost servers.

    from ray.rllib.algorithms.ppo import PPOConfig
    from kubernasium.rllib import configure

    algorithm = configure(PPOConfig(), "k8s/PodBalance-v0", num_env_runners=2, num_envs=8, nodes=5).build_algo()

`configure` sets all that this needs. Its parts: `MaskObservation` is the connector that puts flat
observations and masks together, and `MaskedPPOModule` and `MaskedDQNModule` are RLlib's default modules that never choose a
masked action.

Without masks, RLlib makes `PPOConfig().environment("kubernasium:k8s/GangWindow-v0")` by itself, one session for each
environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.torch_utils import FLOAT_MIN
from ray.tune.registry import register_env

from kubernasium.vector import VectorEnv
from kubernasium.wrappers import make_masked

OBS, MASK = "observations", "action_mask"  # keys of RLlib's examples
RECONNECT = 600.0  # seconds for which an env runner waits for a server, before it makes its environments again


def configure(
    config: AlgorithmConfig,
    env_id: str,
    *,
    num_env_runners: int = 2,
    num_envs: int = 8,
    masks: bool = True,
    infos: Sequence[str] = (),
    reconnect: float = RECONNECT,
    **kwargs: Any,
) -> AlgorithmConfig:
    """Sets the environments of an algorithm, so that it outlives lost servers.

    A runner that loses its server connects to it again, or to another of several, and resumes. If that
    takes longer than `reconnect`, it makes its environments again and drops their episodes; if a runner itself dies, Ray
    starts it again after a second. By default, RLlib ends the sampling of a runner whose environment fails.

    Args:
        config: of PPO or DQN; other algorithms without masks.
        env_id: of the environments.
        num_env_runners: how many processes sample.
        num_envs: of each, stepped together by one request.
        masks: whether to mask actions, if the action space has masks. Observations that are Dicts become flat anyway.
        infos: diagnostics to keep in the infos of episodes, for callbacks; RLlib takes time to split them by row.
        reconnect: seconds.
        **kwargs: further arguments of `kubernasium.VectorEnv`: `url`, and the environment's options.

    Returns:
        The same config.

    Raises:
        ValueError: there is no module with masks for the algorithm.
    """
    modules = {DQNConfig: MaskedDQNModule, PPOConfig: MaskedPPOModule}
    module = next((module for kind, module in modules.items() if isinstance(config, kind)), None)
    if masks and module is None:
        raise ValueError(f"no masks for {type(config).__name__}: give masks=False, or a config of PPO or DQN")
    name = f"runner/{env_id}"
    register_env(name, lambda context: RunnerEnv(env_id, **context))
    config.environment(name, env_config={"infos": list(infos), "reconnect": reconnect, **kwargs})
    config.env_runners(
        num_env_runners=num_env_runners,
        num_envs_per_env_runner=num_envs,
        gym_env_vectorize_mode="vector_entry_point",
        env_to_module_connector=lambda env=None, spaces=None, device=None: MaskObservation(masks=masks),
    )
    config.fault_tolerance(
        restart_failed_env_runners=True,
        restart_failed_sub_environments=True,
        delay_between_env_runner_restarts_s=1.0,
    )
    if masks:
        config.rl_module(rl_module_spec=RLModuleSpec(module_class=module))
    return config


class RunnerEnv(VectorEnv):
    """The vector of an env runner: its infos have the action mask, and few diagnostics."""

    def __init__(self, env_id: str, num_envs: int = 1, *, infos: Sequence[str] = (), **kwargs: Any) -> None:
        """Makes the environments; infos names the diagnostics to keep."""
        self._kept = {MASK, *infos} | {"_" + name for name in (MASK, *infos)}
        super().__init__(env_id, num_envs, **kwargs)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Is `VectorEnv.reset`."""
        obs, infos = super().reset(**kwargs)
        return obs, self._few(infos)

    def step_wait(self, timeout: float | None = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Is `VectorEnv.step_wait`."""
        *result, infos = super().step_wait(timeout)
        return (*result, self._few(infos))

    def _few(self, infos: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in infos.items() if key in self._kept}


class MaskObservation(SingleAgentObservationPreprocessor):
    """Makes observations flat, and a Dict of them and the action mask in their infos.

    The learner sees the same observations, because they are written into the episodes.
    """

    def __init__(self, *args: Any, masks: bool = True, **kwargs: Any) -> None:
        """Keeps whether to add masks."""
        self._masks = masks
        super().__init__(*args, **kwargs)

    def recompute_output_observation_space(
        self, input_observation_space: spaces.Space[Any], input_action_space: spaces.Space[Any]
    ) -> spaces.Space[Any]:
        """Returns the space of the observations, of which RLlib asks."""
        flat = spaces.flatten_space(input_observation_space)
        if not self._masks:
            return flat
        size = mask_size(input_action_space)
        return spaces.Dict([(OBS, flat), (MASK, spaces.Box(0, 1, (size,), np.float32))])

    def preprocess(self, observation: Any, episode: Any) -> Any:
        """Returns one observation as the module takes it."""
        flat = spaces.flatten(self.input_observation_space, observation)
        if not self._masks:
            return flat
        return {OBS: flat, MASK: episode.get_infos(-1)[MASK].astype(np.float32)}


def mask_size(space: spaces.Space[Any]) -> int:
    """Returns the length of an action mask.

    Raises:
        ValueError: actions of that space have no masks that a module applies.
    """
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    raise ValueError(f"no masks for actions of {space}; give masks=False")


def make(env_id: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Makes an environment whose observations hold `observations`, flat, and `action_mask`.

    Args:
        env_id: its id.
        **kwargs: of `gymnasium.make`, the environment's options among them.
    """
    return make_masked(env_id, OBS, MASK, **kwargs)


def register(env_id: str) -> str:
    """Registers `make` of an environment with RLlib; its options are RLlib's `env_config`.

    Returns:
        The name for `AlgorithmConfig.environment`.
    """
    name = f"masked/{env_id}"
    register_env(name, lambda config: make(env_id, **config))
    return name


class MaskedPPOModule(DefaultPPOTorchRLModule):
    """PPO's default module, which gives a masked action the least probability there is.

    It is for observations of `make`, and for Discrete and MultiDiscrete actions.
    """

    def __init__(self, *, observation_space: gymnasium.spaces.Dict, **kwargs: Any) -> None:
        """Builds the networks for the observation without its mask."""
        super().__init__(observation_space=observation_space[OBS], **kwargs)
        self.observation_space = observation_space

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return _mask(super()._forward(_unmasked(batch), **kwargs), batch)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return _mask(super()._forward_train(_unmasked(batch), **kwargs), batch)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """Returns the values of observations, which no mask changes."""
        return super().compute_values(_unmasked(batch), embeddings)


class MaskedDQNModule(DefaultDQNTorchRLModule):
    """DQN's default module, in which a masked action has the value -∞, and is not drawn at random.

    It is for observations of `MaskObservation` and `make`, and for Discrete actions.
    """

    def __init__(self, *, observation_space: spaces.Dict, **kwargs: Any) -> None:
        """Builds the networks for the observation without its mask."""
        super().__init__(observation_space=observation_space[OBS], **kwargs)
        self.observation_space = observation_space

    def _qf_forward_helper(self, batch: dict[str, Any], encoder: Any, head: Any) -> dict[str, Any]:
        output = super()._qf_forward_helper(_unmasked(batch), encoder, head)
        permitted = batch[Columns.OBS][MASK] > 0
        output[QF_PREDS] = torch.where(permitted, output[QF_PREDS], -torch.inf)
        return output


def _unmasked(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, Columns.OBS: batch[Columns.OBS][OBS]}


def _mask(output: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    logits = output[Columns.ACTION_DIST_INPUTS]
    permitted = batch[Columns.OBS][MASK] > 0
    output[Columns.ACTION_DIST_INPUTS] = torch.where(permitted, logits, FLOAT_MIN)
    return output
