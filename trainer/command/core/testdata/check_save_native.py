"""Trains small models of Stable-Baselines3 and writes them, and transitions, as files of ours.

Usage: check_save_native.py FOLDER

On Gymnasium's CartPole, PPO and A2C with VecNormalize, DQN and RecurrentPPO learn for some steps and
are written to FOLDER; so are transitions of random actions, as transitions.safetensors. Prints a JSON
list with, for each model, its "file", rows of observations "obs" as the environment gives them, and
what the model makes of each, as the first of an episode, "outputs": logits (up to a constant) and
value, or q-values. Needs stable-baselines3, sb3-contrib and this repository's Python package.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from kubernasium import save_transitions
from kubernasium.save_native import save


def outputs(model, obs) -> torch.Tensor:
    """Returns what a model makes of observations."""
    policy = model.policy
    tensor, _ = policy.obs_to_tensor(obs)
    with torch.no_grad():
        if isinstance(model, DQN):
            return policy.q_net(tensor)
        if isinstance(model, RecurrentPPO):
            zeros = torch.zeros(policy.lstm_actor.num_layers, len(obs), policy.lstm_actor.hidden_size)
            starts = torch.ones(len(obs))
            distribution, _ = policy.get_distribution(tensor, (zeros, zeros), starts)
            value = policy.predict_values(tensor, (zeros, zeros), starts)
        else:
            distribution, value = policy.get_distribution(tensor), policy.predict_values(tensor)
        return torch.cat([distribution.distribution.logits, value], dim=1)


def main(folder: Path) -> list:
    """Writes the files and returns what is printed."""
    torch.set_num_threads(1)
    documents = []
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    for kind, policy, normalized in (
        (PPO, "MlpPolicy", True),
        (A2C, "MlpPolicy", True),
        (DQN, "MlpPolicy", False),
        (RecurrentPPO, "MlpLstmPolicy", True),
    ):
        envs = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])
        if normalized:
            envs = VecNormalize(envs)
        arguments = {"n_steps": 32} if kind is not DQN else {"learning_starts": 16, "buffer_size": 500}
        model = kind(policy, envs, seed=0, device="cpu", **arguments).learn(300)
        file = folder / f"{kind.__name__}.safetensors"
        save(model, file, env="classic/CartPole-v1", infinite_bounds=True)
        result = outputs(model, envs.normalize_obs(obs) if normalized else obs)
        documents.append({"file": str(file), "obs": obs.tolist(), "outputs": result.tolist()})
    save_transitions.save(folder / "transitions.safetensors", episodes(), env="classic/CartPole-v1")
    return documents


def episodes():
    """Plays three episodes at random, in the form of Minari."""
    env = gymnasium.make("CartPole-v1")
    env.action_space.seed(0)
    for seed in range(3):
        rows = SimpleNamespace(observations=[env.reset(seed=seed)[0]], actions=[], rewards=[], terminations=[], truncations=[])
        while not (rows.terminations and (rows.terminations[-1] or rows.truncations[-1])):
            action = env.action_space.sample()
            obs, reward, terminated, truncated, _ = env.step(action)
            for name, value in zip(vars(rows), (obs, action, reward, terminated, truncated), strict=True):
                getattr(rows, name).append(value)
        yield rows


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    json.dump(main(Path(sys.argv[1])), sys.stdout)
