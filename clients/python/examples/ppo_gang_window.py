# %% [markdown]
# # PPO against the planners
# Stable-Baselines3's PPO learns `k8s/GangWindow-v0`; every so often it plays held-out
# episodes, which the planners play too. A job's completion time counts: less is better.
#
# `pip install ./clients/python stable-baselines3`, then `python ppo_gang_window.py`.

# %%
import argparse
import json

import torch
from gang_planners import PLANNERS, baselines, completion_times
from stable_baselines3 import PPO

from kubernasium.sb3 import VecEnv

parser = argparse.ArgumentParser()
parser.add_argument("--timesteps", type=int, default=300_000)
parser.add_argument("--points", type=int, default=10, help="of the learning curve")
parser.add_argument("--episodes", type=int, default=16, help="of each evaluation")
parser.add_argument("--num-envs", type=int, default=16)
parser.add_argument("--steps", type=int, default=400, help="supersteps of an episode")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--out", help="JSON file for the curve")
args = parser.parse_args()
torch.set_num_threads(1)  # networks this small are slower with more

# %% [markdown]
# The planners do not learn, so they play once: the environment's own, which plan with the
# instance itself at the server, and those that a client can be.

# %%
held_out = {"split": "heldout", "steps": args.steps}
planners = {}
for name, planner in ({name: name for name in baselines()} | PLANNERS).items():
    planners[name] = completion_times(planner, args.episodes, seed=10_000, **held_out).mean()
for name, seconds in sorted(planners.items(), key=lambda item: item[1]):
    print(f"{name:24s} {seconds:9.0f} s")

# %% [markdown]
# PPO, in parts between which it is evaluated without exploration.

# %%
envs = VecEnv("k8s/GangWindow-v0", args.num_envs, seed=args.seed, steps=args.steps)
model = PPO("MlpPolicy", envs, n_steps=128, batch_size=512, gamma=0.95, ent_coef=0.01, seed=args.seed, device="cpu")
curve = []
best = min(planners, key=planners.get)
for part in range(args.points):
    model.learn(args.timesteps // args.points, reset_num_timesteps=part == 0)
    times = completion_times(
        lambda step, obs: model.predict(obs, deterministic=True)[0], args.episodes, seed=10_000, **held_out
    )
    curve.append((model.num_timesteps, times.mean()))
    gain = 100 * (1 - times.mean() / planners[best])
    print(f"PPO after {model.num_timesteps:8,d} steps {times.mean():9.0f} s  {gain:+.1f} % to {best}")
envs.close()

# %%
if args.out:
    with open(args.out, "w") as file:
        json.dump({"planners": planners, "ppo": curve}, file, indent=1)
