"""Environments at a server for RLlib's new API stack: whole vectors, action masks, Dict observations, and lost servers.

    from ray.rllib.algorithms.ppo import PPOConfig
    from kubernasium.rllib import configure

    algorithm = configure(PPOConfig(), "k8s/PodBalance-v0", num_env_runners=2, num_envs=8, nodes=5).build_algo()

`configure` sets all that this needs. Its parts: `RunnerEnv` puts flat observations and masks together, and
`MaskedPPOModule` and `MaskedDQNModule` are RLlib's default modules that never choose a masked action.

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
from gymnasium.vector.utils import batch_space
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.torch_utils import FLOAT_MIN
from ray.tune.registry import register_env

from kubernasium.batch import Batches
from kubernasium.flatten import FlatFrames, flatten_rows
from kubernasium.protocol.transport import Buffer
from kubernasium.protocol.vector import Vector
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
    """Sets the environments of an algorithm, so that it survives lost servers.

    A runner that loses its server reconnects to it, or to another of several, and resumes. If that takes longer than
    `reconnect`, it makes new environments and drops the episodes; if a runner itself dies, Ray restarts it after a
    second. By default, RLlib stops sampling in a runner whose environment fails.

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
    config.environment(name, env_config={"masks": masks, "infos": list(infos), "reconnect": reconnect, **kwargs})
    config.env_runners(
        num_env_runners=num_env_runners,
        num_envs_per_env_runner=num_envs,
        gym_env_vectorize_mode="vector_entry_point",
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
    """The vector of an env runner. It does for all rows at once what RLlib's connectors and infos would do row by row.

    Its observations are flat, or Dicts of `observations`, flat, and `action_mask`. Its infos have few diagnostics, for
    RLlib makes a dict of them for each row.
    """

    def __init__(
        self, env_id: str, num_envs: int = 1, *, masks: bool = True, infos: Sequence[str] = (), **kwargs: Any
    ) -> None:
        """Makes the environments.

        Args:
            env_id: their id.
            num_envs: how many.
            masks: whether observations hold the action mask.
            infos: the diagnostics to keep.
            **kwargs: further arguments of `VectorEnv`, but not `copy=False`: RLlib keeps observations.
        """
        if not kwargs.get("copy", True):
            raise ValueError("copy=False in RLlib, which keeps observations; leave it out")
        self._masks = masks
        super().__init__(env_id, num_envs, **kwargs)
        self._infos = bool(infos)
        self._batches = _FewInfos(num_envs, infos)
        self._never = np.zeros(num_envs, np.bool_)
        self._nested = self.single_observation_space
        self._flat = spaces.flatten_space(self._nested)
        if masks:
            mask = spaces.Box(0, 1, (mask_size(self.single_action_space),), np.float32)
            self.single_observation_space = spaces.Dict([(OBS, self._flat), (MASK, mask)])
            self._permitted = np.ones((num_envs, *mask.shape), np.float32)
        else:
            self.single_observation_space = self._flat
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Is `VectorEnv.reset`."""
        obs, infos = super().reset(**kwargs)
        return self._seen(obs), infos

    def step_wait(self, timeout: float | None = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Is `VectorEnv.step_wait`."""
        if isinstance(self.vector, Vector) and not self._infos:
            frame, layout = self.vector.step_wait_frame(timeout)
            reader = layout.reader
            if reader is None:
                reader = FlatFrames.of(layout, self._nested, self.num_envs, self._flat.dtype) or False
                layout.reader = reader
            return self._read(frame, reader) if reader else self._stepped(layout.view(frame))
        return self._stepped(self.vector.step_wait(timeout))

    def _read(
        self, frame: Buffer, reader: FlatFrames
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Returns the results of a step from the frame of its reply. They are RLlib's to keep."""
        seen = reader.observations(frame)
        rewards, terminations, truncations, mask = reader.others(frame)
        self._batches.mask = mask
        if terminations is None:
            terminations = self._never.copy()
        if truncations is None:
            truncations = self._never.copy()
        return self._with_mask(seen), rewards, terminations, truncations, {}

    def _stepped(self, reply: dict[str, Any]) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, *result = self._batches.stepped(reply)
        return (self._seen(obs), *result)

    def _seen(self, obs: Any) -> Any:
        seen = flatten_rows(self._nested, obs, self.num_envs).astype(self._flat.dtype, copy=False)
        return self._with_mask(seen)

    def _with_mask(self, seen: np.ndarray) -> Any:
        if not self._masks:
            return seen
        mask = self._batches.mask
        return {OBS: seen, MASK: self._permitted.copy() if mask is None else mask.astype(np.float32)}


class _FewInfos(Batches):
    """Batches whose infos are a few diagnostics. To make all of them takes longer than the rest of a step."""

    def __init__(self, num_envs: int, names: Sequence[str]) -> None:
        super().__init__(num_envs, mask_size=0)
        self._names = names

    def infos(self, reply: dict[str, Any], chosen: np.ndarray | None) -> dict[str, Any]:
        self.mask = reply.get("mask")
        if not self._names:
            return {}
        info = {name: column for name, column in reply.get("info", {}).items() if name in self._names}
        return super().infos({"mask": self.mask, "info": info}, chosen)


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
    """PPO's default module, which gives masked actions the least possible probability.

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
