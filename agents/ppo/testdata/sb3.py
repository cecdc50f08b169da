"""Writes sb3.json: what MaskablePPO makes of the rollout of TestAgainstStableBaselines3.

Run once with Python 3.11, torch 2.15.0, stable-baselines3 2.9.2 and sb3-contrib 2.9.2:

    python sb3.py > sb3.json
"""

import sys
from pathlib import Path

import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agentstest" / "testdata"))

import sb3_common as common

CASES = {
    "normalized": {"ent_coef": 0.01},
    "value clipped": {"clip_range_vf": 0.1, "normalize_advantage": False, "max_grad_norm": 100.0},
    "stopped by target_kl": {"target_kl": 0.001, "ent_coef": 0.01},
}


def mask(t):
    return np.array([[t % 2 == 0 or a != (t + n) % 3 for a in range(3)] for n in range(common.N)])


class Masked(common.Spaces):
    def action_masks(self):
        return np.ones(3, bool)


def run(kwargs):
    model = MaskablePPO(
        "MlpPolicy", DummyVecEnv([Masked] * common.N), learning_rate=0.05, n_steps=common.T,
        batch_size=common.T * common.N, n_epochs=3, gamma=0.9, gae_lambda=0.8, device="cpu",
        policy_kwargs=common.policy_kwargs(), **kwargs)
    # The actions are what Learner samples from the first parameters with seed 1; the test compares them.
    return common.learn(model, mask)


common.write({name: run(kwargs) for name, kwargs in CASES.items()})
