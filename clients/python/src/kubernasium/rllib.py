"""Action masks for RLlib's new API stack.

    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from kubernasium.rllib import MaskedPPOModule, register

    config = (
        PPOConfig()
        .environment(register("k8s/PodBalance-v0"), env_config={"nodes": 5})
        .rl_module(rl_module_spec=RLModuleSpec(module_class=MaskedPPOModule))
    )

Without masks, RLlib makes `PPOConfig().environment("kubernasium:k8s/GangWindow-v0")` by itself.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.utils.torch_utils import FLOAT_MIN
from ray.tune.registry import register_env

from kubernasium.wrappers import make_masked

OBS, MASK = "observations", "action_mask"  # keys of RLlib's examples


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


def _unmasked(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, Columns.OBS: batch[Columns.OBS][OBS]}


def _mask(output: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    logits = output[Columns.ACTION_DIST_INPUTS]
    permitted = batch[Columns.OBS][MASK] > 0
    output[Columns.ACTION_DIST_INPUTS] = torch.where(permitted, logits, FLOAT_MIN)
    return output
