"""Writes sb3.json: what A2C makes of the rollout of TestAgainstStableBaselines3.

Run once with Python 3.11, torch 2.15.0 and stable-baselines3 2.9.2:

    python sb3.py > sb3.json
"""

import json
import math

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

T, N = 4, 2
ACTIONS = [[0, 1], [0, 1], [1, 2], [1, 0]]
REWARD = [[1, -0.5], [0.5, 2], [-1, 0], [1.5, 1]]
TERMINATED = {(1, 0)}
TRUNCATED = {(2, 1)}
FINAL_OBS = [2, -1]

CASES = {
    "defaults": {},
    "normalized": {"normalize_advantage": True, "ent_coef": 0.01, "max_grad_norm": 100.0},
    "Adam": {"use_rms_prop": False, "ent_coef": 0.5, "vf_coef": 0.25},
}


def obs(t):
    return np.array([[0.25 * t - 0.5 * n, 0.5 - 0.125 * t * (n + 1)] for n in range(N)], np.float32)


class Spaces(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Discrete(3)


def initialize(policy):
    for k, name in enumerate(NAMES):
        p = policy.get_parameter(name)
        n = p.numel()
        v = np.array([0.5 * math.sin(1 + j + 10 * k) for j in range(n)], np.float32)
        # Dense weights are (inputs, outputs) in Go and (outputs, inputs) here.
        v = v.reshape(tuple(p.shape)[::-1]).T
        with torch.no_grad():
            p.copy_(torch.from_numpy(v.copy()))


NAMES = [
    prefix + suffix
    for prefix in ("mlp_extractor.policy_net.0", "mlp_extractor.value_net.0", "action_net", "value_net")
    for suffix in (".weight", ".bias")
]


def run(kwargs):
    model = A2C(
        "MlpPolicy", DummyVecEnv([Spaces] * N), learning_rate=0.05, n_steps=T, gamma=0.9, gae_lambda=0.8,
        device="cpu", policy_kwargs={"net_arch": {"pi": [2], "vf": [2]}, "activation_fn": torch.nn.Tanh}, **kwargs)
    model._logger = Logger(None, [])
    model._current_progress_remaining = 1
    initialize(model.policy)
    buf = model.rollout_buffer
    buf.reset()
    starts = np.ones(N)

    def values(o):
        with torch.no_grad():
            return model.policy.predict_values(torch.as_tensor(np.asarray(o, np.float32)))

    for t in range(T):
        a = torch.tensor(ACTIONS[t])
        with torch.no_grad():
            v, log_prob, _ = model.policy.evaluate_actions(torch.from_numpy(obs(t)), a)
        reward = np.array(REWARD[t], np.float64)
        for n in range(N):
            if (t, n) in TRUNCATED:  # as collect_rollouts does
                reward[n] += model.gamma * values([FINAL_OBS]).item()
        buf.add(obs(t), a.numpy().reshape(N, 1), reward, starts, v, log_prob)
        starts = np.array([(t, n) in TERMINATED or (t, n) in TRUNCATED for n in range(N)], np.float64)
    buf.compute_returns_and_advantage(last_values=values(obs(T)), dones=starts)
    result = {
        "advantages": buf.advantages.flatten().tolist(),
        "returns": buf.returns.flatten().tolist(),
    }
    model.train()
    result["metrics"] = {k: float(v) for k, v in model.logger.name_to_value.items()}
    del result["metrics"]["train/learning_rate"]
    result["params"] = [x for name in NAMES for x in model.policy.get_parameter(name).detach().numpy().T.flatten().tolist()]
    return result


print("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(run(v))}" for k, v in CASES.items()) + "\n}")
