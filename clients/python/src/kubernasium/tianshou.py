"""Action masks for Tianshou 2.

Tianshou's DQN family reads `obs.mask` by itself, so it needs `make` only. Actors of
policy-gradient algorithms do not: wrap actor and critic in `MaskedActor` and `Unmasked`.

from kubernasium.tianshou import MaskedActor, Unmasked, make

env = make("k8s/PodBalance-v0")
actor = MaskedActor(DiscreteActor(preprocess_net=net, action_shape=10, softmax_output=False))
critic = Unmasked(DiscreteCritic(preprocess_net=net))
"""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from tianshou.utils.net.common import AbstractDiscreteActor
from torch import nn

from kubernasium.wrappers import make_masked


def make(env_id: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Makes an environment whose observations hold `obs`, flat, and `mask`, as Tianshou calls them.

    Args:
        env_id: its id.
        **kwargs: of `gymnasium.make`, the environment's options among them.
    """
    return make_masked(env_id, "obs", "mask", **kwargs)


class MaskedActor(AbstractDiscreteActor):
    """An actor that gives masked actions the least possible probability."""

    def __init__(self, actor: AbstractDiscreteActor) -> None:
        """Wraps actor, which returns logits (`softmax_output=False`) of a flat observation."""
        super().__init__(actor.get_output_dim())
        self.actor = actor

    def get_preprocess_net(self) -> Any:
        """Returns the wrapped actor's network."""
        return self.actor.get_preprocess_net()

    def forward(self, obs: Any, state: Any = None, info: dict[str, Any] | None = None) -> tuple[torch.Tensor, Any]:
        """Returns logits of shape (batch, actions), and the state."""
        logits, state = self.actor(obs.obs, state, info)
        permitted = torch.as_tensor(obs.mask, device=logits.device) > 0
        return torch.where(permitted, logits, torch.finfo(logits.dtype).min), state


class Unmasked(nn.Module):
    """A network that receives the observation without its mask, such as a critic."""

    def __init__(self, network: nn.Module) -> None:
        """Wraps network."""
        super().__init__()
        self.network = network

    def forward(self, obs: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the network's output for the observation."""
        return self.network(obs.obs, *args, **kwargs)
