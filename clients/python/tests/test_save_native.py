"""Models of Stable-Baselines3 as model files. A Go test checks that the trainer plays them."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from kubernasium import Policy
from kubernasium.load_sb3 import ModelError, load, read
from kubernasium.save_native import save

torch.set_num_threads(1)  # networks this small are slower with more


class Toy(gymnasium.Env):
    """Gives random observations of a space and takes any action."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: object) -> tuple:
        return self.observation_space.sample(), 1.0, bool(self.np_random.random() < 0.1), False, {}


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    """Registers the id of Toy, as of another server."""
    gymnasium.register("test/Toy-v0", entry_point="kubernasium.env:Env", kwargs={"env_id": "test/Toy-v0"})
    yield
    del gymnasium.registry["test/Toy-v0"]


BOX = spaces.Box(-1, 1, (3,))
PARTS = spaces.Dict([("z", spaces.Box(-1, 1, (2, 2))), ("a", BOX)])
SMALL = {"n_steps": 16, "batch_size": 16}


@pytest.mark.parametrize(
    ("kind", "policy", "observation", "action", "arguments"),
    [
        (PPO, "MlpPolicy", BOX, spaces.Discrete(3), SMALL),
        (PPO, "MultiInputPolicy", PARTS, spaces.MultiDiscrete([2, 3]), SMALL),
        (A2C, "MlpPolicy", BOX, spaces.Box(-1, 1, (2,)), {"policy_kwargs": {"net_arch": [], "log_std_init": -1.0}}),
        (A2C, "MultiInputPolicy", PARTS, spaces.MultiBinary(2), {"policy_kwargs": {"activation_fn": torch.nn.ReLU}}),
        (DQN, "MlpPolicy", BOX, spaces.Discrete(4), {"learning_starts": 4, "buffer_size": 64}),
        (DQN, "MultiInputPolicy", PARTS, spaces.Discrete(4), {"learning_starts": 4, "buffer_size": 64}),
        (RecurrentPPO, "MlpLstmPolicy", BOX, spaces.Discrete(3), SMALL),
        (
            RecurrentPPO,
            "MultiInputLstmPolicy",
            PARTS,
            spaces.Discrete(3),
            SMALL | {"policy_kwargs": {"enable_critic_lstm": False, "n_lstm_layers": 2, "lstm_hidden_size": 8}},
        ),
    ],
)
@pytest.mark.parametrize("normalized", [False, True])
def test_there_and_back(tmp_path: Path, kind, policy, observation, action, arguments, normalized) -> None:
    """A model trained in SB3 takes the same actions after the way to our file and back."""
    envs = DummyVecEnv([lambda: Toy(observation, action)])
    if normalized:
        envs = VecNormalize(envs, clip_obs=2.0)
    model = kind(policy, envs, seed=0, device="cpu", **arguments).learn(40)
    save(model, tmp_path / "m.safetensors", env="test/Toy-v0", size=3)
    meta, _ = read(tmp_path / "m.safetensors")
    assert meta["env_kwargs"] == {"size": 3}
    assert meta["timesteps"] == model.num_timesteps
    again = load(tmp_path / "m.safetensors")
    obs = [observation.sample() for _ in range(20)]
    batch = {key: np.stack([o[key] for o in obs]) for key in observation} if observation is PARTS else np.stack(obs)
    seen = envs.normalize_obs(batch) if normalized else batch
    with torch.no_grad():
        ours, theirs = again.policy.obs_to_tensor(batch)[0], model.policy.obs_to_tensor(seen)[0]
        if kind is DQN:
            np.testing.assert_allclose(again.policy.q_net(ours), model.policy.q_net(theirs), rtol=1e-6, atol=1e-6)
    actions = model.predict(seen, deterministic=True)[0]
    np.testing.assert_array_equal(again.predict(batch, deterministic=True)[0], actions)
    ours = Policy(tmp_path / "m.safetensors").predict(batch, deterministic=True)[0]
    np.testing.assert_allclose(ours, actions, rtol=3e-6, atol=1e-7)  # means of a Box are rounded otherwise


def test_every_shipped_policy_comes_back(root: Path, tmp_path: Path) -> None:
    """What load_sb3 made of a file is written as the same network and parameters, to the last bit."""
    for path in sorted((root.parent.parent / "models" / "pretrained").glob("*/*.safetensors")):
        if path.stem == "lstm_forecaster":
            continue
        meta, tensors = read(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a further training lacks
            model = load(path)
        save(model, tmp_path / "m.safetensors", env=meta["env"], **(meta.get("env_kwargs") or {}))
        again, written = read(tmp_path / "m.safetensors")
        assert again["observation_space"] == meta["observation_space"], path
        assert again["action_space"] == meta["action_space"], path
        for name, value in tensors.items():
            if name.startswith(("state.obs_rms.",)):
                np.testing.assert_allclose(written[name], value, rtol=1e-12)
            elif not name.startswith(("state.", "optimizer.")):
                assert torch.equal(written[name], value), (path, name)


def test_command_and_refusals(tmp_path: Path) -> None:
    envs = VecNormalize(DummyVecEnv([lambda: Toy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2))]))
    model = PPO("MlpPolicy", envs, **SMALL).learn(16)
    model.save(tmp_path / "m.zip")
    envs.save(tmp_path / "v.pkl")
    command = [sys.executable, "-m", "kubernasium.save_native", tmp_path / "m.zip", tmp_path / "m.safetensors"]
    more = ["--env", "classic/CartPole-v1", "--env-kwargs", "size:3", "--vec-normalize", tmp_path / "v.pkl"]
    output = subprocess.run([*command, *more], check=True, capture_output=True, text=True).stdout
    assert "ppo, 16 timesteps" in output
    meta, tensors = read(tmp_path / "m.safetensors")
    assert meta["env_kwargs"] == {"size": 3}
    np.testing.assert_array_equal(tensors["state.obs_rms.mean"], envs.obs_rms.mean)

    def refused(policy: str, observation: spaces.Space, action: spaces.Space, message: str, **kwargs: object) -> None:
        model = PPO(policy, Toy(observation, action), policy_kwargs=kwargs, use_sde="sde" in message.lower(), **SMALL)
        with pytest.raises(ModelError, match=message):
            save(model, tmp_path / "n.safetensors", env="test/Toy-v0")

    refused("MlpPolicy", spaces.Discrete(5), spaces.Discrete(2), "want a Box")
    refused("MlpPolicy", BOX, spaces.Discrete(2, start=1), "no space Discrete")
    refused("MlpPolicy", BOX, spaces.Discrete(2), "activation is GELU", activation_fn=torch.nn.GELU)
    refused("MlpPolicy", BOX, spaces.Box(-1, 1, (2,)), "gSDE")
    sac = SAC("MlpPolicy", Toy(BOX, BOX), buffer_size=10)
    with pytest.raises(ModelError, match="want one of PPO"):
        save(sac, tmp_path / "n.safetensors", env="test/Toy-v0")


def test_unknown_environments(tmp_path: Path) -> None:
    """An id that is none of kubernasium's is refused before a file is written; Gymnasium's CartPole-v1 is none."""
    model = PPO("MlpPolicy", Toy(BOX, spaces.Discrete(3)), **SMALL)
    for env, message in {
        "CartPole-v1": r"no environment 'CartPole-v1'; did you mean classic/CartPole-v1\?",
        "k8s/GangWindov-v0": r"did you mean k8s/GangWindow-v0",
        "mine/X-v0": r"kubernasium\.register adds those of another server",
    }.items():
        with pytest.raises(ModelError, match=message):
            save(model, tmp_path / "n.safetensors", env=env)
    model.save(tmp_path / "m.zip")
    command = [sys.executable, "-m", "kubernasium.save_native", tmp_path / "m.zip", tmp_path / "n.safetensors"]
    for url, message in {"": "no environment 'mine/X-v0'", f"unix:{tmp_path}/none": f"{tmp_path}/none"}.items():
        run = subprocess.run(
            [*command, "--env", "mine/X-v0"], env=os.environ | {"KUBERNASIUM_URL": url}, capture_output=True, text=True
        )
        assert run.returncode == 1
        assert message in run.stderr
        assert "Traceback" not in run.stderr
    assert not (tmp_path / "n.safetensors").exists()
