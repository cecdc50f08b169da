"""Writes models of Stable-Baselines3 as model files of the native trainer.

From Python:

    from kubernasium.save_native import save

    save(model, "model.safetensors", env="classic/CartPole-v1")

From a shell, with a zip file of Stable-Baselines3:

    python -m kubernasium.save_native model.zip model.safetensors --env classic/CartPole-v1
    trainer eval --model model.safetensors --episodes 100

PPO, A2C and DQN with an MlpPolicy or a MultiInputPolicy are written, and RecurrentPPO with an
MlpLstmPolicy or a MultiInputLstmPolicy; statistics of VecNormalize are included (`--vec-normalize vecnormalize.pkl`). A
model that `kubernasium.load_sb3` made converts back. Zip and pickle files
of Stable-Baselines3 can run code when they are read: take only those that you trust.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from safetensors.torch import save as save_tensors
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.dqn.policies import DQNPolicy
from torch import Tensor, nn

from kubernasium.errors import KubernasiumError
from kubernasium.model_file import FORMAT, ModelError
from kubernasium.registration import register
from kubernasium.sb3_policies import ACTIVATIONS, Observation

_ALGORITHMS: dict[type[BaseAlgorithm], str] = {PPO: "ppo", A2C: "a2c", DQN: "dqn", RecurrentPPO: "ppo_lstm"}
_NORMALIZE = ("norm_obs", "norm_reward", "clip_obs", "clip_reward")


def describe(space: spaces.Space) -> dict[str, Any]:
    """Returns the description of a space as model files have it.

    Raises:
        ModelError: the native trainer has no such space.
    """
    if isinstance(space, spaces.Box):
        low, high = (_bounds(bound) for bound in (space.low, space.high))
        return {"kind": "box", "shape": list(space.shape), "dtype": "float32", "low": low, "high": high}
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return {"kind": "discrete", "dtype": "int64", "n": [int(space.n)]}
    if isinstance(space, spaces.MultiDiscrete) and len(space.shape) == 1 and not np.any(space.start):
        return {"kind": "multi_discrete", "shape": list(space.shape), "dtype": "int64", "n": space.nvec.tolist()}
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return {"kind": "multi_binary", "shape": list(space.shape), "dtype": "int8", "n": [int(space.n)]}
    if isinstance(space, spaces.Dict):
        return {"kind": "dict", "keys": list(space), "parts": [describe(part) for part in space.values()]}
    raise ModelError(f"the native trainer has no space {space}; want Box, Discrete, MultiDiscrete, MultiBinary or Dict")


def _bounds(bound: np.ndarray) -> list[Any]:
    """Returns one bound if all are equal, as the trainer writes them; infinite ones are strings."""
    values = [float(np.float32(x)) if np.isfinite(x) else ("inf" if x > 0 else "-inf") for x in bound.ravel()]
    # The shortest decimal that is the same float32, as Go prints it.
    values = [x if isinstance(x, str) else float(str(np.float32(x))) for x in values]
    values = [int(x) if isinstance(x, float) and x.is_integer() and abs(x) < 1e21 else x for x in values]
    return values[:1] if len(set(values)) == 1 else values


def save(
    model: BaseAlgorithm, path: str | Path, *, env: str, vec_normalize: VecNormalize | None = None, **env_kwargs: Any
) -> None:
    """Writes a model of Stable-Baselines3 as a model file of the native trainer.

    Args:
        model: PPO, A2C, DQN or RecurrentPPO.
        path: of the file.
        env: id of the environment that the model is for: of the bundled server, or of one whose environments
            `kubernasium.register` has added. Its spaces are not compared with the model's; the trainer does that.
        vec_normalize: statistics to include; by default those of the model's own environment.
        **env_kwargs: options of the environment.

    Raises:
        ModelError: there is no such environment, or the model has what the native trainer cannot express; the message
            says what.
    """
    _check_env(env)
    algo = next((name for kind, name in _ALGORITHMS.items() if type(model) is kind), None)
    if algo is None:
        names = ", ".join(kind.__name__ for kind in _ALGORITHMS)
        raise ModelError(f"a model of class {type(model).__name__}, want one of {names}")
    spec, tensors = _network(model, algo)
    vec_normalize = vec_normalize or model.get_vec_normalize_env()
    metadata, statistics = _statistics(model, spec, vec_normalize)
    meta = {
        "format": FORMAT,
        "algo": algo,
        "env": env,
        "observation_space": _text(describe(model.observation_space)),
        "action_space": _text(describe(model.action_space)),
        "spec": spec,
        "seed": int(model.seed or 0),
        "timesteps": int(model.num_timesteps),
    }
    if env_kwargs:
        meta["env_kwargs"] = env_kwargs
    if metadata:
        meta["metadata"] = metadata
    Path(path).write_bytes(_file(tensors | statistics, meta))


def _ids() -> list[str]:
    """Returns the ids of the environments of kubernasium that are registered with Gymnasium."""
    return [env for env, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("kubernasium.")]


def _check_env(env: str) -> None:
    known = _ids()
    if env not in known:
        near = " or ".join(difflib.get_close_matches(env, known))
        hint = f"did you mean {near}?" if near else "kubernasium.register adds those of another server"
        raise ModelError(f"no environment {env!r}; {hint}")


def _text(description: Any) -> str:
    return json.dumps(description, separators=(",", ":"))


def _file(tensors: dict[str, Tensor], meta: dict[str, Any]) -> bytes:
    """Returns a model file, whose digest is that of the file with zeros in its place."""
    zeros = "0" * 64
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    data = save_tensors(tensors, {"digest": zeros, "format": "pt", "kubernasium": json.dumps(meta)})
    digest = hashlib.sha256(data).hexdigest()
    key = b'"digest":"%s"'
    return data.replace(key % zeros.encode(), key % digest.encode(), 1)


def _network(model: BaseAlgorithm, algo: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Returns the spec of a model's network, and its parameters."""
    policy = model.policy
    state = {name: value for name, value in policy.state_dict().items() if not name.startswith("q_net_target.")}
    if spec := getattr(policy, "spec", None):  # of kubernasium.sb3_policies
        return spec, state
    space = model.observation_space
    if not all(
        isinstance(part, spaces.Box) for part in (space.values() if isinstance(space, spaces.Dict) else [space])
    ):
        raise ModelError(f"observations of {space}, which Stable-Baselines3 encodes; want a Box or a Dict of Boxes")
    inputs = int(spaces.flatdim(space))
    extractors = [module for name, module in policy.named_modules() if name.endswith("features_extractor")]
    for extractor in extractors:
        if (
            type(extractor) not in (FlattenExtractor, CombinedExtractor, Observation)
            or extractor.features_dim != inputs
        ):
            raise ModelError(
                f"observations are read by a {type(extractor).__name__}, want vectors of numbers as they are "
                "(FlattenExtractor, or CombinedExtractor over Boxes)"
            )
    if algo == "dqn":
        return _dqn_spec(policy, inputs), state
    return _actor_critic_spec(policy, inputs, algo), state


def _dqn_spec(policy: DQNPolicy, inputs: int) -> dict[str, Any]:
    """Returns the spec of a DQN's network."""
    layers = policy.q_net.q_net
    widths = [layer.out_features for layer in layers if isinstance(layer, nn.Linear)]
    tower = _tower("q_net.q_net", widths[:-1], policy.activation_fn)
    head = {"name": f"q_net.q_net.{len(layers) - 1}", "tower": 0, "size": widths[-1], "gain": 1}
    return {"inputs": inputs, "towers": [tower], "heads": [head]}


def _actor_critic_spec(policy: ActorCriticPolicy, inputs: int, algo: str) -> dict[str, Any]:
    """Returns the spec of an actor-critic's network."""
    if policy.use_sde:
        raise ModelError("the policy explores by gSDE (use_sde), which the native trainer has not")
    towers = []
    for name in ("policy_net", "value_net"):
        widths = [layer.out_features for layer in getattr(policy.mlp_extractor, name) if isinstance(layer, nn.Linear)]
        towers.append(_tower(f"mlp_extractor.{name}", widths, policy.activation_fn))
    action = {"name": "action_net", "tower": 0, "size": int(policy.action_net.out_features), "gain": 0.01}
    if isinstance(policy.action_space, spaces.MultiDiscrete):
        action["blocks"] = policy.action_space.nvec.tolist()
    heads = [action, {"name": "value_net", "tower": 1, "size": 1, "gain": 1}]
    if isinstance(policy.action_space, spaces.Box):
        heads.append({"name": "log_std", "tower": 0, "size": action["size"], "gain": 0, "free": True})
    spec = {"inputs": inputs, "towers": towers, "heads": heads}
    if algo == "ppo_lstm":
        lstm = policy.lstm_actor
        if lstm.bidirectional or lstm.proj_size or not lstm.bias:
            raise ModelError("the LSTM is bidirectional, projected or without biases (lstm_kwargs)")
        spec["lstms"] = [{"name": "lstm_actor", "hidden": lstm.hidden_size, "layers": lstm.num_layers}]
        towers[0]["reads"] = towers[1]["reads"] = "lstm_actor"
        if policy.shared_lstm:
            towers[1]["detach"] = True
        else:
            name = "critic" if policy.lstm_critic is None else "lstm_critic"
            layers = 0 if policy.lstm_critic is None else lstm.num_layers
            spec["lstms"].append({"name": name, "hidden": lstm.hidden_size, "layers": layers})
            towers[1]["reads"] = name
    return spec


def _tower(name: str, widths: list[int], activation: type[nn.Module]) -> dict[str, Any]:
    """Returns the description of dense layers."""
    known = {kind: text for text, kind in ACTIVATIONS.items()}
    if activation not in known:
        raise ModelError(f"the activation is {activation.__name__}, want {' or '.join(k.__name__ for k in known)}")
    return {"name": name, "hidden": widths, "activation": known[activation]}


def _statistics(
    model: BaseAlgorithm, spec: dict[str, Any], normalizer: VecNormalize | None
) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Returns how observations are normalized, and by which statistics."""
    extractor = next((m for m in model.policy.modules() if isinstance(m, Observation) and m.scales), None)
    if normalizer is None and extractor is None:
        return {}, {}
    inputs = spec["inputs"]
    settings: dict[str, Any] = {"norm_obs": True, "norm_reward": False, "clip_obs": 10.0, "clip_reward": 0.0}
    count, reward = [1e-4, 1e-4], [0.0, 1.0]
    if extractor is not None:
        if normalizer is not None and normalizer.norm_obs:
            raise ModelError("observations are normalized by the policy and by VecNormalize, want one of them")
        mean, variance = extractor.mean, extractor.std**2 - 1e-8
        settings["clip_obs"] = float(extractor.clip[torch.isfinite(extractor.clip)][0])
        if spec.get("nodes"):
            raise ModelError("statistics that nodes share cannot be written: save the model file it was loaded from")
    else:
        settings = {name: getattr(normalizer, name) for name in _NORMALIZE}
        mean, variance = torch.zeros(inputs), torch.ones(inputs)
        if normalizer.norm_obs:
            mean, variance, count[0] = _moments(normalizer)
        reward, count[1] = (
            [float(normalizer.ret_rms.mean), float(normalizer.ret_rms.var)],
            float(normalizer.ret_rms.count),
        )
        if abs(normalizer.epsilon - 1e-8) > 1e-12:
            raise ModelError(f"VecNormalize has epsilon {normalizer.epsilon}, want 1e-8")
    tensors = {
        "state.obs_rms.mean": mean.double(),
        "state.obs_rms.var": variance.double(),
        "state.ret_rms.mean": torch.tensor(reward[:1], dtype=torch.float64),
        "state.ret_rms.var": torch.tensor(reward[1:], dtype=torch.float64),
        "state.rms.count": torch.tensor(count, dtype=torch.float64),
        "state.returns": torch.zeros(1, dtype=torch.float64),
    }
    return {"normalize": _text(settings)}, tensors


def _moments(normalizer: VecNormalize) -> tuple[Tensor, Tensor, float]:
    """Returns VecNormalize's means and variances, the parts of a Dict side by side."""
    rms = normalizer.obs_rms
    parts = [rms]
    if isinstance(rms, dict):
        keys = list(normalizer.observation_space)
        if set(normalizer.norm_obs_keys or keys) != set(keys):
            raise ModelError(f"VecNormalize normalizes {normalizer.norm_obs_keys}, want all parts: {keys}")
        parts = [rms[key] for key in keys]
    mean, variance = (
        torch.cat([torch.from_numpy(np.asarray(getattr(part, name), np.float64)).flatten() for part in parts])
        for name in ("mean", "var")
    )
    return mean, variance, float(parts[0].count)


def load_zip(path: str | Path) -> BaseAlgorithm:
    """Loads a zip file of Stable-Baselines3, of whichever algorithm it is.

    Raises:
        ModelError: none of the algorithms that can be written fits the file.
    """
    from stable_baselines3.common.save_util import load_from_zip_file

    data, parameters, _ = load_from_zip_file(path, device="cpu")
    for kind in (RecurrentPPO, DQN, PPO, A2C):
        fits = {
            RecurrentPPO: any(name.startswith("lstm_actor.") for name in parameters["policy"]),
            DQN: "exploration_rate" in data,
            PPO: "n_epochs" in data,
            A2C: "gae_lambda" in data and "n_epochs" not in data,
        }
        if fits[kind]:
            return kind.load(path, device="cpu", **({"buffer_size": 1} if kind is DQN else {}))
    raise ModelError(f"{path} is no PPO, A2C, DQN or RecurrentPPO of Stable-Baselines3")


def _option(text: str) -> tuple[str, Any]:
    """Returns key and value of an option key:value, in which numbers, true and false are read as such."""
    key, colon, value = text.partition(":")
    if not key or not colon:
        raise ValueError(f"--env-kwargs {text!r}, want key:value")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


def main() -> None:
    """Converts a zip file of Stable-Baselines3 into a model file."""
    parser = argparse.ArgumentParser(
        prog="python -m kubernasium.save_native",
        description="Converts a zip file of Stable-Baselines3 into a model file of the native trainer.",
        epilog="example: python -m kubernasium.save_native model.zip model.safetensors --env classic/CartPole-v1",
    )
    parser.add_argument(
        "zip", help="file of Stable-Baselines3's save; it can run code, so take only one that you trust"
    )
    parser.add_argument("model", help="safetensors file to write, for trainer eval and the like")
    parser.add_argument(
        "--env",
        required=True,
        help="id of the environment that the model is for, of the bundled server or of that at KUBERNASIUM_URL",
    )
    parser.add_argument(
        "--env-kwargs", action="append", default=[], help="option key:value of the environment (repeat)"
    )
    parser.add_argument("--vec-normalize", help="file of VecNormalize's save")
    arguments = parser.parse_args()
    try:
        normalizer = None
        if arguments.vec_normalize:
            with open(arguments.vec_normalize, "rb") as file:
                normalizer = pickle.load(file)
        model = load_zip(arguments.zip)
        options = dict(_option(text) for text in arguments.env_kwargs)
        if arguments.env not in _ids() and os.environ.get("KUBERNASIUM_URL"):
            register()
        save(model, arguments.model, env=arguments.env, vec_normalize=normalizer, **options)
    except (KubernasiumError, OSError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    print(f"{arguments.model}: {_ALGORITHMS[type(model)]}, {model.num_timesteps} timesteps")


if __name__ == "__main__":
    main()
