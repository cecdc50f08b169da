"""Loads models of the native trainer into Stable-Baselines3.

From Python, to play, to evaluate, or to train on with Stable-Baselines3:

    from kubernasium.load_sb3 import load

    model = load("logs/ppo/classic-CartPole-v1_1/best_model.safetensors")
    action, _ = model.predict(obs, deterministic=True)

From a shell, as a file for Stable-Baselines3's own `load`, RL Zoo's `enjoy` and the like:

    python -m kubernasium.load_sb3 best_model.safetensors model.zip

Names and layout of the parameters are those of Stable-Baselines3, so that this is a
`load_state_dict`; the network's shape and the hyperparameters are in the file's metadata.
Nothing in the file is executed.

Where Stable-Baselines3's own policies can express a network, the model has one of them. Others
have a policy of `kubernasium.sb3_policies`: policies over nodes and graphs, layer norms, dueling
heads. Models of ppo_lstm become sb3-contrib's RecurrentPPO. Statistics of observations become part of the model, which
needs no VecNormalize and does not update them in further training. A model of REINFORCE becomes an A2C, which has the
same network.
"""

from __future__ import annotations

import argparse
import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize
from torch import Tensor

from kubernasium import model_file
from kubernasium.model_file import ModelError
from kubernasium.sb3_policies import ACTIVATIONS, Nodes, Observation, RecurrentSpecPolicy, SpecDQNPolicy, SpecPolicy
from kubernasium.spaces import from_description

_CLASSES: dict[str, type[BaseAlgorithm]] = {
    "ppo": PPO,
    "a2c": A2C,
    "reinforce": A2C,
    "dqn": DQN,
    "ppo_lstm": RecurrentPPO,
}
_REFUSED = {"lstm_forecaster": "it forecasts usage for a rule that makes the actions, and is no policy"}
_ACTOR_CRITIC = {"mlp_extractor.policy_net", "mlp_extractor.value_net"}
_POOLS = {"mlp_extractor.policy_pool", "mlp_extractor.value_pool"}
_EPSILON = 1e-8  # added to variances before their root is taken, as VecNormalize does
_SCHEDULES = {"learning_rate", "clip_range", "clip_range_vf"}
_LACKING = ("double_q", "prioritized_replay", "exploration_decay", "clip_vloss")
_ZERO_IS_NONE = {"clip_range_vf", "target_kl"}


class LinearSchedule:
    """A hyperparameter that falls linearly to 0, as Stable-Baselines3 calls it."""

    def __init__(self, initial: float) -> None:
        self.initial = initial

    def __call__(self, progress_remaining: float) -> float:
        """Returns the value with progress_remaining of the training left, from 1 to 0."""
        return self.initial * progress_remaining


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reads a model file as `kubernasium.model_file` does, with tensors of PyTorch.

    Raises:
        ModelError: the file is truncated, altered, not a model of ours, or of a newer format.
    """
    meta, tensors = model_file.read(path)
    return meta, {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}


def load(path: str | Path, env: Any = None, device: str = "cpu", **kwargs: Any) -> BaseAlgorithm:
    """Makes a Stable-Baselines3 model of a model file.

    Args:
        path: of a model file of the native trainer, of any of its algorithms.
        env: environment to train on in, an Env or VecEnv; playing needs none.
        device: PyTorch's device.
        **kwargs: hyperparameters in place of the file's.

    Returns:
        The model, whose policy takes the same actions as the native one. The caller applies action masks, as everywhere
        in Stable-Baselines3.

    Raises:
        ModelError: the file is damaged or has what Stable-Baselines3 cannot express; the
            message says what.
    """
    meta, tensors = read(path)
    if meta["algo"] in _REFUSED:
        raise ModelError(f"{path} was learned by {meta['algo']!r}: {_REFUSED[meta['algo']]}")
    if meta["algo"] not in _CLASSES:
        raise ModelError(f"{path} was learned by {meta['algo']!r}, want one of {', '.join(_CLASSES)}")
    obs_space = from_description(json.loads(meta["observation_space"]))
    parts = obs_space.values() if isinstance(obs_space, spaces.Dict) else [obs_space]
    if not all(isinstance(part, spaces.Box) for part in parts):
        raise ModelError(f"{path} takes observations of {obs_space}, which Stable-Baselines3 encodes; want Boxes")
    algorithm = _CLASSES[meta["algo"]]
    policy, policy_kwargs = _policy(path, meta, tensors, isinstance(obs_space, spaces.Dict))
    arguments = _hyperparameters(algorithm, meta) | {"policy_kwargs": policy_kwargs} | kwargs
    if meta["algo"] == "reinforce":
        warnings.warn("Stable-Baselines3 lacks REINFORCE: actions are equal, further training is A2C's", stacklevel=2)
    if env is not None and (meta.get("config") or {}).get("norm_reward") and not _normalizes_rewards(env):
        warnings.warn(
            f"{path} was trained on normalized rewards, and so its values are of such ones: further training is other "
            "than before, unless env is VecNormalize(…, norm_obs=False)",
            stacklevel=2,
        )
    if env is None and issubclass(algorithm, DQN):
        arguments["buffer_size"] = 1  # nothing will be stored
    model = algorithm(policy, env, device=device, _init_setup_model=False, **arguments)
    if env is None:
        model.observation_space = obs_space
        model.action_space = from_description(json.loads(meta["action_space"]))
        model.n_envs = 1
    elif _shapes(model.observation_space) != _shapes(obs_space):
        raise ModelError(f"{path} takes observations of {obs_space}, the environment has {model.observation_space}")
    model._setup_model()
    model.policy.load_state_dict(_state_dict(meta, tensors))
    model.num_timesteps = meta["timesteps"]
    return model


def _normalizes_rewards(env: Any) -> bool:
    """Returns whether VecNormalize is among the wrappers of env, and normalizes rewards."""
    normalizer = unwrap_vec_normalize(env) if isinstance(env, VecEnv) else None
    return normalizer is not None and normalizer.norm_reward


def _shapes(space: spaces.Space) -> Any:
    """Returns the properties of a space on which a network depends."""
    return {key: part.shape for key, part in space.items()} if isinstance(space, spaces.Dict) else space.shape


def _policy(path: str | Path, meta: dict[str, Any], tensors: dict[str, Tensor], is_dict: bool) -> tuple[Any, dict]:
    """Returns the policy for the network of a model, and its arguments."""
    spec = meta["spec"]
    towers = {tower["name"]: tower for tower in spec["towers"]}
    heads = [head["name"] for head in spec["heads"]]
    dqn, nodes, lstms = meta["algo"] == "dqn", bool(spec.get("nodes")), spec.get("lstms") or []
    _check_parts(path, meta["algo"], [*towers, *heads], [lstm["name"] for lstm in lstms])
    arguments = _observation_kwargs(meta, tensors, is_dict or nodes)
    hidden = [tower for tower in spec["towers"] if tower["hidden"]]
    for activation in {tower["activation"] for tower in hidden}:
        if activation not in ACTIVATIONS:
            raise ModelError(f"{path} has the activation {activation!r}, want one of {list(ACTIVATIONS)}")
    first = spec["towers"][0]
    activation = ACTIVATIONS[hidden[0]["activation"] if hidden else "tanh"]
    own = not nodes and not any(tower.get("layer_norm") for tower in hidden) and not (dqn and len(heads) > 1)
    if lstms:
        arguments |= {
            "lstm_hidden_size": lstms[0]["hidden"],
            "n_lstm_layers": lstms[0]["layers"],
            "shared_lstm": len(lstms) == 1,
            "enable_critic_lstm": lstms[-1]["name"] == "lstm_critic",
        }
    if not own:
        custom = SpecDQNPolicy if dqn else RecurrentSpecPolicy if lstms else SpecPolicy
        return custom, arguments | {"spec": spec}
    if dqn:
        arch: Any = first["hidden"] or []
    else:
        arch = {"pi": first["hidden"] or [], "vf": towers["mlp_extractor.value_net"]["hidden"] or []}
    name = ("MultiInput" if is_dict else "Mlp") + ("LstmPolicy" if lstms else "Policy")
    return name, arguments | {"net_arch": arch, "activation_fn": activation}


def _check_parts(path: str | Path, algo: str, parts: list[str], lstms: list[str]) -> None:
    """Raises for towers and heads that no policy here has."""
    found = set(parts)
    if algo == "dqn":
        known = {"q_net.q_net", "q_net.pool", "q_net.advantage_net", "q_net.value_net", "q_net.wait_net"}
        fits = "q_net.q_net" in found and all(part in known or part.startswith("q_net.q_net.") for part in parts)
        fits = fits and not lstms
    else:
        known = _ACTOR_CRITIC | _POOLS | {"action_net", "wait_net", "value_net", "log_std"}
        fits = found <= known and _ACTOR_CRITIC | {"action_net", "value_net"} <= found
        fits = fits and bool(lstms) == (algo == "ppo_lstm")
        fits = fits and lstms in ([], ["lstm_actor"], ["lstm_actor", "lstm_critic"], ["lstm_actor", "critic"])
    if not fits:
        raise ModelError(f"{path} has the parts {[*lstms, *parts]}, which no policy of {algo} has")


def _observation_kwargs(meta: dict[str, Any], tensors: dict[str, Tensor], row: bool) -> dict[str, Any]:
    """Returns the arguments by which a policy reads observations: as a row, if asked for, and normalized."""
    settings = json.loads((meta.get("metadata") or {}).get("normalize", "{}"))
    if not settings.get("norm_obs"):
        return {"features_extractor_class": Observation} if row else {}
    spec = meta["spec"]
    inputs, of = spec["inputs"], list(range(spec["inputs"]))
    if spec.get("nodes"):  # which share the statistics of each feature; edges have none
        layout = Nodes(spec)
        of = [-1] * inputs
        for i in range(layout.n * layout.features):
            of[layout.rows.start + i] = i % layout.features
        for i, at in enumerate(layout.others):
            of[at] = layout.features + i
    mean, variance = (tensors[f"state.obs_rms.{name}"].double() for name in ("mean", "var"))
    std = (variance + _EPSILON).sqrt()
    scaling = {
        "mean": [0.0 if k < 0 else mean[k].item() for k in of],
        "std": [1.0 if k < 0 else std[k].item() for k in of],
        "clip": [float("inf") if k < 0 else float(settings["clip_obs"]) for k in of],
    }
    return {"features_extractor_class": Observation, "features_extractor_kwargs": scaling}


def _hyperparameters(algorithm: type[BaseAlgorithm], meta: dict[str, Any]) -> dict[str, Any]:
    """Returns those hyperparameters of a model that Stable-Baselines3 has, too."""
    config = meta.get("config") or {}
    known = inspect.signature(algorithm.__init__).parameters
    arguments = {}
    for name, value in config.items():
        if name not in known or name == "policy":
            continue
        if name in _SCHEDULES and isinstance(value, str):
            linear = value.startswith("lin_")
            number = float(value.removeprefix("lin_"))
            value = LinearSchedule(number) if linear and number else number
        arguments[name] = None if name in _ZERO_IS_NONE and value == 0 else value
    lacking = [name for name in _LACKING if config.get(name)]
    if lacking:
        names = " and ".join(lacking)
        warnings.warn(f"Stable-Baselines3 lacks {names}: actions are equal, further training is not", stacklevel=3)
    return arguments


def _state_dict(meta: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the parameters under Stable-Baselines3's names."""
    state = {name: t for name, t in tensors.items() if not name.startswith(("state.", "optimizer."))}
    if meta["algo"] == "dqn":  # a model without its training state has no target network, and needs none to play
        for name, value in list(state.items()):
            state[name.replace("q_net.", "q_net_target.", 1)] = tensors.get("state.target." + name, value)
    return state


def main() -> None:
    """Converts a model file into one of Stable-Baselines3's."""
    parser = argparse.ArgumentParser(
        prog="python -m kubernasium.load_sb3",
        description="Converts a model of the native trainer into a zip file of Stable-Baselines3.",
        epilog="example: python -m kubernasium.load_sb3 best_model.safetensors model.zip",
    )
    parser.add_argument("model", help="safetensors file of trainer train")
    parser.add_argument("zip", help="file to write, for Stable-Baselines3's load")
    arguments = parser.parse_args()
    try:
        model = load(arguments.model)
    except (ModelError, OSError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    model.save(arguments.zip)
    print(f"{arguments.zip}: {type(model).__name__}, {model.num_timesteps} timesteps")


if __name__ == "__main__":
    main()
