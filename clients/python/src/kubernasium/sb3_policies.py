"""Networks of the native trainer as policies of Stable-Baselines3.

`kubernasium.load_sb3` uses them where SB3's own policies have not all that a network has: layers
that the nodes of a cluster share, SAGE and GCN layers, layer norms, dueling heads, and
observations normalized by the statistics of the training. Modules and parameters have the names
of the model file, so that its tensors are a `state_dict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


class Observation(BaseFeaturesExtractor):
    """An observation as one row, normalized as it was in the training.

    The parts of a Dict stand side by side in its order. With statistics, each number becomes
    (x − mean)/std within ±clip, in float64 as in the trainer; they do not change in a further
    training.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        clip: Sequence[float] | None = None,
    ) -> None:
        """Makes the extractor.

        Args:
            observation_space: a Box, or a Dict of Boxes.
            mean: one for each number of a row, or None to leave observations as they are.
            std: likewise.
            clip: likewise; inf where nothing is clipped.
        """
        super().__init__(observation_space, spaces.flatdim(observation_space))
        self.scales = mean is not None
        for name, values in (("mean", mean), ("std", std), ("clip", clip)):
            buffer = None if values is None else torch.tensor(values, dtype=torch.float64)
            self.register_buffer(name, buffer, persistent=False)
        self.keys = list(observation_space) if isinstance(observation_space, spaces.Dict) else None

    def forward(self, observations: Tensor | dict[str, Tensor]) -> Tensor:
        """Returns rows of shape (N, numbers)."""
        parts = [observations] if self.keys is None else [observations[key] for key in self.keys]
        row = torch.cat([part.flatten(start_dim=1) for part in parts], dim=1)
        if not self.scales:
            return row
        return ((row.double() - self.mean) / self.std).clamp(-self.clip, self.clip).float()


class Sage(nn.Module):
    """A SAGE layer: the mean of a node's in-neighbours and the node itself, as PyTorch Geometric's SAGEConv."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.lin_l = nn.Linear(width, out)
        self.lin_r = nn.Linear(width, out, bias=False)

    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        """Returns (N, nodes, out) of x, (N, nodes, width), and the edges to each node from each."""
        mean = counts / counts.sum(dim=-1, keepdim=True).clamp(min=1)
        return self.lin_l(mean @ x) + self.lin_r(x)


class Gcn(nn.Module):
    """A GCN layer: the normalized sum over a node and its in-neighbours, as PyTorch Geometric's GCNConv."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, out, bias=False)
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        """Returns (N, nodes, out) of x, (N, nodes, width), and the edges to each node from each."""
        identity = torch.eye(counts.shape[-1], device=counts.device)
        matrix = counts * (1 - identity) + identity
        root = matrix.sum(dim=-1).rsqrt()
        return self.lin(root.unsqueeze(-1) * matrix * root.unsqueeze(-2) @ x) + self.bias


class Tower(nn.Sequential):
    """Hidden layers of a network, each with its activation and, if it has any, its layer norm."""

    def __init__(self, tower: dict[str, Any], width: int) -> None:
        super().__init__()
        layer = {"sage": Sage, "gcn": Gcn}.get(tower.get("layer", ""), nn.Linear)
        for out in tower["hidden"] or []:
            self.append(layer(width, out))
            if tower.get("layer_norm"):
                self.append(nn.LayerNorm(out))
            self.append(ACTIVATIONS[tower["activation"]]())
            width = out
        self.hidden, self.width = len(self), width

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        """Returns the results of the last hidden layer."""
        for module in list(self)[: self.hidden]:
            x = module(x, counts) if isinstance(module, Sage | Gcn) else module(x)
        return x


class Nodes:
    """Where a row holds nodes, edges, and numbers that belong to none of them.

    Attributes:
        width: numbers of a node's row with those that belong to no node or edge.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        nodes = spec["nodes"]
        self.n, self.features = nodes["n"], nodes["features"]
        self.rows = slice(nodes["offset"], nodes["offset"] + self.n * self.features)
        self.edges = nodes.get("edges") or {}
        used = [False] * spec["inputs"]
        for part in self.parts():
            used[part] = [True] * (part.stop - part.start)
        self.others = [i for i, taken in enumerate(used) if not taken]
        self.width = self.features + len(self.others)

    def parts(self) -> list[slice]:
        """Returns the parts of a row that hold nodes and edges: the rows first."""
        count, offset, mask = (self.edges.get(key, 0) for key in ("n", "offset", "mask_offset"))
        parts = [self.rows]
        if count:
            parts.append(slice(offset, offset + 2 * count))
        if self.edges.get("masked"):
            parts.append(slice(mask, mask + count))
        return parts

    def split(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the nodes' rows, (N, nodes, features), and the numbers of none, (N, others)."""
        return row[:, self.rows].reshape(-1, self.n, self.features), row[:, self.others]

    def join(self, row: Tensor, beside: Tensor | None) -> Tensor:
        """Returns what a tower over nodes reads: (N, nodes, width), and beside it (N, …) for each node."""
        rows, others = self.split(row)
        if beside is not None:
            others = torch.cat([others, beside], dim=1)
        return torch.cat([rows, others.unsqueeze(1).expand(-1, self.n, -1)], dim=2)

    def counts(self, row: Tensor) -> Tensor | None:
        """Returns how many edges lead to a node, its row, from another, its column; None without edges."""
        if not self.edges:
            return None
        if self.edges.get("fixed"):
            ends = torch.tensor(self.edges["fixed"], device=row.device).expand(len(row), -1, -1)
        else:
            ends = row[:, self.parts()[1]].reshape(len(row), -1, 2).long()
        source, target = (nn.functional.one_hot(ends[..., i], self.n).float() for i in (0, 1))
        if self.edges.get("masked"):
            source = source * (row[:, self.parts()[2]] != 0).float().unsqueeze(-1)
        counts = target.transpose(1, 2) @ source
        if self.edges.get("undirected"):  # a loop counts once
            counts = counts + counts.transpose(1, 2) * (1 - torch.eye(self.n, device=row.device))
        return counts


def pool(x: Tensor, how: str) -> Tensor:
    """Returns x, (N, nodes, width), pooled over the nodes: "mean", "max" or "mean+max" side by side."""
    parts = {"mean": lambda: x.mean(dim=1), "max": lambda: x.amax(dim=1)}
    return torch.cat([parts[part]() for part in how.split("+")], dim=1)


def pooled_width(width: int, how: str) -> int:
    """Returns the width of what `pool` returns."""
    return width * len(how.split("+"))


class Extractor(nn.Module):
    """The towers of an actor-critic, in the place of SB3's MlpExtractor.

    What it reads is a row of the observation or, behind LSTMs, their results; over nodes the
    row with these results behind it.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        towers = {tower["name"]: tower for tower in spec["towers"]}
        policy, value = towers["mlp_extractor.policy_net"], towers["mlp_extractor.value_net"]
        hidden = {lstm["name"]: lstm["hidden"] for lstm in spec.get("lstms") or []}
        self.nodes = Nodes(spec) if spec.get("nodes") else None
        self.inputs = spec["inputs"]

        def width(tower: dict[str, Any]) -> int:
            if self.nodes:
                return self.nodes.width + hidden.get(tower.get("beside"), 0)
            return hidden.get(tower.get("reads"), self.inputs)

        self.policy_net, self.value_net = Tower(policy, width(policy)), Tower(value, width(value))
        self.latent_dim_pi, self.latent_dim_vf = self.policy_net.width, self.value_net.width
        if self.nodes:
            self.how = towers["mlp_extractor.value_pool"]["pool"]
            self.latent_dim_vf = pooled_width(self.latent_dim_vf, self.how)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the results for policy and value."""
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        """Returns the policy's results: (N, width), over nodes (N, nodes, width)."""
        return self._tower(self.policy_net, features)

    def forward_critic(self, features: Tensor) -> Tensor:
        """Returns the value's results, pooled over nodes."""
        result = self._tower(self.value_net, features)
        return pool(result, self.how) if self.nodes else result

    def _tower(self, tower: Tower, features: Tensor) -> Tensor:
        if not self.nodes:
            return tower(features)
        row, beside = features[:, : self.inputs], features[:, self.inputs :]
        return tower(self.nodes.join(row, beside), self.nodes.counts(row))


class _Spec:
    """What both policies below have in common: they build the network of `spec`."""

    spec: dict[str, Any]

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = Extractor(self.spec)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        nodes = self.mlp_extractor.nodes
        if nodes is None:
            return
        width = self.mlp_extractor.latent_dim_pi
        self.action_net, self.wait_net = nn.Linear(width, 1), None
        for tower in self.spec["towers"]:
            if tower["name"] == "mlp_extractor.policy_pool":
                self.wait_net, self.wait_pool = nn.Linear(pooled_width(width, tower["pool"]), 1), tower["pool"]
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Distribution:
        if self.mlp_extractor.nodes is None:
            return super()._get_action_dist_from_latent(latent_pi)
        logits = self.action_net(latent_pi).squeeze(-1)
        if self.wait_net is not None:
            logits = torch.cat([logits, self.wait_net(pool(latent_pi, self.wait_pool))], dim=1)
        return self.action_dist.proba_distribution(action_logits=logits)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"spec": self.spec}


class SpecPolicy(_Spec, ActorCriticPolicy):
    """An actor-critic of the native trainer, for PPO and A2C."""

    def __init__(self, *args: Any, spec: dict[str, Any], **kwargs: Any) -> None:
        """Makes the policy.

        Args:
            *args: those of ActorCriticPolicy.
            spec: description of the network, as the model file has it.
            **kwargs: those of ActorCriticPolicy.
        """
        self.spec = spec
        super().__init__(*args, **kwargs)


class _PooledLinear(nn.Linear):
    """A dense layer over the nodes, pooled, whose results stand behind the row."""

    nodes: Nodes
    how: str

    def forward(self, row: Tensor) -> Tensor:
        return torch.cat([row, super().forward(memory_input(self.nodes, row, self.how))], dim=1)


def memory_input(nodes: Nodes, row: Tensor, how: str) -> Tensor:
    """Returns what an LSTM over nodes reads: the numbers that belong to none, and the rows, pooled."""
    rows, others = nodes.split(row)
    return torch.cat([others, pool(rows, how)], dim=1)


class RecurrentSpecPolicy(_Spec, RecurrentActorCriticPolicy):
    """An actor-critic of the native trainer with LSTMs, for RecurrentPPO."""

    def __init__(self, *args: Any, spec: dict[str, Any], **kwargs: Any) -> None:
        """Makes the policy.

        Args:
            *args: those of RecurrentActorCriticPolicy.
            spec: description of the network, as the model file has it.
            **kwargs: those of RecurrentActorCriticPolicy.
        """
        self.spec = spec
        super().__init__(*args, **kwargs)
        nodes = self.mlp_extractor.nodes
        if nodes is None:
            return
        for lstm in spec["lstms"]:
            how = lstm["pool"]
            width = len(nodes.others) + pooled_width(nodes.features, how)
            if lstm["layers"]:
                module = nn.LSTM(width, lstm["hidden"], num_layers=lstm["layers"])
            else:
                module = _PooledLinear(width, lstm["hidden"])
                module.nodes, module.how = nodes, how
            setattr(self, lstm["name"], module)
        lr_schedule = args[2] if len(args) > 2 else kwargs["lr_schedule"]
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _process_sequence(
        self, features: Tensor, lstm_states: tuple[Tensor, Tensor], episode_starts: Tensor, lstm: nn.LSTM
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        nodes = self.mlp_extractor.nodes
        process = RecurrentActorCriticPolicy._process_sequence
        if nodes is None:
            return process(features, lstm_states, episode_starts, lstm)
        read = memory_input(nodes, features, self.spec["lstms"][0]["pool"])
        output, lstm_states = process(read, lstm_states, episode_starts, lstm)
        return torch.cat([features, output], dim=1), lstm_states


class SpecQNetwork(QNetwork):
    """Action values of the native trainer's DQN: over nodes, dueling, with layer norms."""

    def __init__(self, *args: Any, spec: dict[str, Any], **kwargs: Any) -> None:
        """Makes the network.

        Args:
            *args: those of QNetwork.
            spec: description of the network, as the model file has it.
            **kwargs: those of QNetwork.
        """
        super().__init__(*args, **kwargs)
        self.spec, self.nodes = spec, Nodes(spec) if spec.get("nodes") else None
        self.q_net = Tower(spec["towers"][0], self.nodes.width if self.nodes else spec["inputs"])
        self.how = next((tower["pool"] for tower in spec["towers"][1:]), "mean")
        for head in spec["heads"]:
            pooled = self.nodes and head["tower"] > 0
            layer = nn.Linear(pooled_width(self.q_net.width, self.how) if pooled else self.q_net.width, head["size"])
            name = head["name"].removeprefix("q_net.")
            if name.startswith("q_net."):  # that of dense layers without dueling is a part of the tower
                self.q_net.append(layer)
            else:
                setattr(self, name, layer)

    def forward(self, obs: Any) -> Tensor:
        """Returns the value of each action, (N, actions)."""
        row = self.extract_features(obs, self.features_extractor)
        counts = self.nodes.counts(row) if self.nodes else None
        hidden = self.q_net(self.nodes.join(row, None) if self.nodes else row, counts)
        values = (self.advantage_net if hasattr(self, "advantage_net") else self.q_net[-1])(hidden)
        pooled = hidden
        if self.nodes:
            values, pooled = values.squeeze(-1), pool(hidden, self.how)
        if hasattr(self, "wait_net"):
            values = torch.cat([values, self.wait_net(pooled)], dim=1)
        if hasattr(self, "value_net"):
            values = self.value_net(pooled) + values - values.mean(dim=1, keepdim=True)
        return values

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"spec": self.spec}


class SpecDQNPolicy(DQNPolicy):
    """The policy of a `SpecQNetwork`, for DQN."""

    def __init__(self, *args: Any, spec: dict[str, Any], **kwargs: Any) -> None:
        """Makes the policy.

        Args:
            *args: those of DQNPolicy.
            spec: description of the network, as the model file has it.
            **kwargs: those of DQNPolicy.
        """
        self.spec = spec
        super().__init__(*args, **kwargs)

    def make_q_net(self) -> SpecQNetwork:
        """Returns a new network."""
        arguments = self._update_features_extractor(self.net_args, features_extractor=None)
        return SpecQNetwork(**arguments, spec=self.spec).to(self.device)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"spec": self.spec}
