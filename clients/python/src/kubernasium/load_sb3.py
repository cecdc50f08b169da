"""Loads models that the native trainer has learned into Stable-Baselines3.

From Python, to play, to evaluate, or to train on with Stable-Baselines3:

    from kubernasium.load_sb3 import load

    model = load("logs/ppo/classic-CartPole-v1_1/best_model.safetensors")
    action, _ = model.predict(obs, deterministic=True)

From a shell, as a file for Stable-Baselines3's own `load`, RL Zoo's `enjoy` and the like:

    python -m kubernasium.load_sb3 best_model.safetensors model.zip

Names and layout of the parameters are those of Stable-Baselines3, so that this is a
`load_state_dict`; the network's shape and the hyperparameters are in the file's metadata.
Nothing in the file is executed.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import warnings
from pathlib import Path
from typing import Any

from gymnasium import spaces
from safetensors.torch import load as load_tensors
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import Tensor, nn

from kubernasium.errors import KubernasiumError
from kubernasium.spaces import from_description

FORMAT = 2  # the newest format of checkpoints that is read

_CLASSES: dict[str, type[BaseAlgorithm]] = {"ppo": PPO, "a2c": A2C, "dqn": DQN}
_ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}
_SCHEDULES = {"learning_rate", "clip_range", "clip_range_vf"}
_ZERO_IS_NONE = {"clip_range_vf", "target_kl"}


class ModelError(KubernasiumError):
    """A file is no model, is damaged, or has what Stable-Baselines3 cannot express."""


class LinearSchedule:
    """A hyperparameter that falls linearly to 0, as Stable-Baselines3 calls it."""

    def __init__(self, initial: float) -> None:
        self.initial = initial

    def __call__(self, progress_remaining: float) -> float:
        """Returns the value when progress_remaining of the training, from 1 to 0, is to come."""
        return self.initial * progress_remaining


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reads a model file.

    Args:
        path: of a safetensors file.

    Returns:
        What the file says of the model, and its tensors by name.

    Raises:
        ModelError: the file is truncated, altered, not a model of ours, or of a newer format.
    """
    data = Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    try:
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__", {})
        tensors = load_tensors(data)
    except Exception as error:
        raise ModelError(f"{path} is no whole safetensors file: {error}") from error
    if "kubernasium" not in metadata:
        raise ModelError(f"{path} is no model of Kubernasium's trainer: its metadata lack 'kubernasium'")
    meta = json.loads(metadata["kubernasium"])
    if not 1 <= meta["format"] <= FORMAT:
        raise ModelError(f"{path} has format {meta['format']}, this version reads 1 to {FORMAT}")
    _check_digest(path, data, 8 + size, metadata, meta["format"])
    return meta, tensors


def _check_digest(path: str | Path, data: bytes, begin: int, metadata: dict[str, str], version: int) -> None:
    """Compares the SHA-256 in the metadata with that of the file, whose tensors begin at begin.

    That of format 2 is of the whole file with zeros in place of its own digits; that of format 1 is
    of the tensors only.

    Raises:
        ModelError: they differ, or a file of format 2 has none.
    """
    if version == 1:
        want, digest = metadata.get("sha256"), hashlib.sha256(data[begin:]).hexdigest()
        if want not in (None, digest):
            raise ModelError(f"{path} was altered: the SHA-256 of its data is {digest}, not {want}")
        return
    want = metadata.get("digest", "")
    head, key, rest = data[:begin].partition(f'"digest":"{want}"'.encode())
    zeros = f'"digest":"{"0" * len(want)}"'.encode()
    digest = hashlib.sha256(head + zeros + rest + data[begin:]).hexdigest()
    if not key or digest != want:
        raise ModelError(f"{path} was altered: the SHA-256 of header and data is {digest}, not {want or 'there'}")


def load(path: str | Path, env: Any = None, device: str = "cpu", **kwargs: Any) -> BaseAlgorithm:
    """Makes a Stable-Baselines3 model of a model file.

    Args:
        path: of a model file of the native trainer, of PPO, A2C or DQN.
        env: environment to train on in, an Env or VecEnv; playing needs none.
        device: PyTorch's device.
        **kwargs: hyperparameters in place of the file's.

    Returns:
        The model, whose policy takes the actions of the native one.

    Raises:
        ModelError: the file is damaged or has what Stable-Baselines3 cannot express; the
            message says what.
    """
    meta, tensors = read(path)
    if meta["algo"] not in _CLASSES:
        raise ModelError(f"{path} was learned by {meta['algo']!r}; Stable-Baselines3 has {', '.join(_CLASSES)} of ours")
    obs_space = from_description(json.loads(meta["observation_space"]))
    if not isinstance(obs_space, spaces.Box):
        raise ModelError(f"{path} takes observations of {obs_space}, which Stable-Baselines3 encodes; want a Box")
    algorithm = _CLASSES[meta["algo"]]
    arguments = _hyperparameters(algorithm, meta) | {"policy_kwargs": _policy_kwargs(path, meta)} | kwargs
    if env is None and issubclass(algorithm, DQN):
        arguments["buffer_size"] = 1  # nothing will be stored
    model = algorithm("MlpPolicy", env, device=device, _init_setup_model=False, **arguments)
    if env is None:
        model.observation_space = obs_space
        model.action_space = from_description(json.loads(meta["action_space"]))
        model.n_envs = 1
    elif model.observation_space.shape != obs_space.shape:
        raise ModelError(f"{path} takes observations of {obs_space}, the environment has {model.observation_space}")
    model._setup_model()
    model.policy.load_state_dict(_state_dict(meta, tensors))
    model.num_timesteps = meta["timesteps"]
    return model


def _policy_kwargs(path: str | Path, meta: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of Stable-Baselines3's policy for the network of a model."""
    policy = (meta.get("config") or {}).get("policy") or "MlpPolicy"
    if policy != "MlpPolicy":
        raise ModelError(f"{path} has a {policy}, want an MlpPolicy")
    if '"norm_obs":true' in (meta.get("metadata") or {}).get("normalize", ""):
        raise ModelError(f"{path} normalizes observations (norm_obs), which Stable-Baselines3 does beside a model")
    if any(tower.get("layer_norm") for tower in meta["spec"]["towers"]):
        raise ModelError(f"{path} has layer_norm: Stable-Baselines3's MlpPolicy has no layer norms")
    towers = {tower["name"]: tower for tower in meta["spec"]["towers"]}
    heads = [head["name"] for head in meta["spec"]["heads"]]
    if meta["algo"] == "dqn":
        if list(towers) != ["q_net.q_net"] or len(heads) != 1:
            raise ModelError(f"{path} has the heads {heads}: Stable-Baselines3's DQN has no dueling networks")
        tower = towers["q_net.q_net"]
        arch: Any = tower["hidden"]
    else:
        wanted = ["mlp_extractor.policy_net", "mlp_extractor.value_net"]
        if list(towers) != wanted or heads not in (["action_net", "value_net"], ["action_net", "value_net", "log_std"]):
            raise ModelError(f"{path} has the parts {[*towers, *heads]}, which MlpPolicy has not")
        tower = towers[wanted[0]]
        arch = {"pi": tower["hidden"] or [], "vf": towers[wanted[1]]["hidden"] or []}
    activation = tower["activation"] or "tanh"
    if activation not in _ACTIVATIONS:
        raise ModelError(f"{path} has the activation {activation!r}, want one of {list(_ACTIVATIONS)}")
    return {"net_arch": arch, "activation_fn": _ACTIVATIONS[activation]}


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
    lacking = [name for name in ("double_q", "prioritized_replay") if config.get(name)]
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
