# %% [markdown]
# # MaskablePPO
# sb3-contrib's MaskablePPO asks the environments for `action_masks`. They came with the last
# observation, so asking costs no round trip.
#
# `pip install ./clients/python sb3-contrib`, then `python maskable_ppo.py`.

# %%
import argparse

import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy

from kubernasium.sb3 import VecEnv

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="k8s/GangWindow-v0")
parser.add_argument("--timesteps", type=int, default=100_000)
parser.add_argument("--num-envs", type=int, default=16)
parser.add_argument("--episodes", type=int, default=16)
args = parser.parse_args()
torch.set_num_threads(1)  # networks this small are slower with more

# %%
with VecEnv(args.env, args.num_envs, seed=0) as envs:
    model = MaskablePPO("MlpPolicy", envs, n_steps=128, batch_size=512, gamma=0.95, seed=0, device="cpu")
    before, _ = evaluate_policy(model, envs, n_eval_episodes=args.episodes)
    model.learn(args.timesteps)
    after, spread = evaluate_policy(model, envs, n_eval_episodes=args.episodes)
print(f"return {before:.2f} before, {after:.2f} ± {spread:.2f} after {model.num_timesteps:,} steps")
