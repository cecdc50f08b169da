"""Writes sb3.json: what DQN makes of the batch of TestAgainstStableBaselines3.

Run once with Python 3.11, torch 2.15.0 and stable-baselines3 2.9.2:

    python sb3.py > sb3.json
"""

import math
import sys
from pathlib import Path

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.utils import polyak_update

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agentstest" / "testdata"))

import sb3_common as common

ROWS, STEPS = 8, 3
NAMES = ["q_net.0.weight", "q_net.0.bias", "q_net.2.weight", "q_net.2.bias"]
CASES = {"defaults": {}, "clipped": {"max_grad_norm": 0.1, "tau": 0.25}}


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


def run(kwargs):
    model = DQN("MlpPolicy", common.Spaces(), learning_rate=0.05, buffer_size=10, batch_size=ROWS, device="cpu",
                policy_kwargs={"net_arch": [4]}, **kwargs)
    common.silence(model)
    common.initialize(model.q_net, NAMES)
    common.initialize(model.q_net_target, NAMES, 5)
    model.replay_buffer.sample = sample
    model.train(gradient_steps=STEPS, batch_size=ROWS)
    polyak_update(model.q_net.parameters(), model.q_net_target.parameters(), model.tau)
    return {"loss": float(model.logger.name_to_value["train/loss"]),
            "params": common.flat(model.q_net, NAMES), "target": common.flat(model.q_net_target, NAMES)}


common.write({name: run(kwargs) for name, kwargs in CASES.items()})
