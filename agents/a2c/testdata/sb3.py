"""Writes sb3.json: what A2C makes of the rollout of TestAgainstStableBaselines3.

Run once with Python 3.11, torch 2.15.0 and stable-baselines3 2.9.2:

    python sb3.py > sb3.json
"""

import sys
from pathlib import Path

from stable_baselines3 import A2C
from stable_baselines3.common.vec_env import DummyVecEnv

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agentstest" / "testdata"))

import sb3_common as common

CASES = {
    "defaults": {},
    "normalized": {"normalize_advantage": True, "ent_coef": 0.01, "max_grad_norm": 100.0},
    "Adam": {"use_rms_prop": False, "ent_coef": 0.5, "vf_coef": 0.25},
}


def run(kwargs):
    model = A2C(
        "MlpPolicy", DummyVecEnv([common.Spaces] * common.N), learning_rate=0.05, n_steps=common.T, gamma=0.9,
        gae_lambda=0.8, device="cpu", policy_kwargs=common.policy_kwargs(), **kwargs)
    result = common.learn(model)
    del result["actions"], result["log_probs"]  # the test takes the actions over
    return result


common.write({name: run(kwargs) for name, kwargs in CASES.items()})
