"""Writes sb3.json: what DQN makes of the batch of TestAgainstStableBaselines3.

Run once with Python 3.11, torch 2.15.0 and stable-baselines3 2.9.2:

    python sb3.py > sb3.json
"""

import json
import math

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.utils import polyak_update

ROWS, STEPS = 8, 3
NAMES = ["q_net.q_net.0.weight", "q_net.q_net.0.bias", "q_net.q_net.2.weight", "q_net.q_net.2.bias"]
CASES = {"defaults": {}, "clipped": {"max_grad_norm": 0.1, "tau": 0.25}}


class Spaces(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Discrete(3)


def initialize(net, shift):
    for k, name in enumerate(NAMES):
        p = net.get_parameter(name.removeprefix("q_net."))
        v = np.array([0.5 * math.sin(1 + j + 10 * k + shift) for j in range(p.numel())], np.float32)
        # Dense weights are (inputs, outputs) in Go and (outputs, inputs) here.
        v = v.reshape(tuple(p.shape)[::-1]).T
        with torch.no_grad():
            p.copy_(torch.from_numpy(v.copy()))


def column(f):
    return torch.tensor([[f(i)] for i in range(ROWS)], dtype=torch.float32)


def sample(batch_size, env=None):
    obs = [[0.25 * i - 1, 0.5 - 0.125 * i * i] for i in range(ROWS)]
    next_obs = [[0.25 * i - 0.5, math.cos(i)] for i in range(ROWS)]
    return ReplayBufferSamples(
        observations=torch.tensor(obs, dtype=torch.float32),
        actions=column(lambda i: i % 3).long(),
        next_observations=torch.tensor(next_obs, dtype=torch.float32),
        dones=column(lambda i: i == 3),
        rewards=column(lambda i: i - 3),
        discounts=column(lambda i: 0.5 if i % 2 else 0.9),
    )


def flat(net):
    return [x for name in NAMES
            for x in net.get_parameter(name.removeprefix("q_net.")).detach().numpy().T.flatten().tolist()]


def run(kwargs):
    model = DQN("MlpPolicy", Spaces(), learning_rate=0.05, buffer_size=10, batch_size=ROWS, device="cpu",
                policy_kwargs={"net_arch": [4]}, **kwargs)
    model._logger = Logger(None, [])
    model._current_progress_remaining = 1
    initialize(model.q_net, 0)
    initialize(model.q_net_target, 5)
    model.replay_buffer.sample = sample
    model.train(gradient_steps=STEPS, batch_size=ROWS)
    polyak_update(model.q_net.parameters(), model.q_net_target.parameters(), model.tau)
    return {"loss": float(model.logger.name_to_value["train/loss"]),
            "params": flat(model.q_net), "target": flat(model.q_net_target)}


print("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(run(v))}" for k, v in CASES.items()) + "\n}")
