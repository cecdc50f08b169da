# %% [markdown]
# # A random agent
# `pip install ./clients/python gymnasium`, then `python random_agent.py`.

# %%
import argparse

import gymnasium

import kubernasium  # noqa: F401  registers the environments

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="k8s/GangWindow-v0")
parser.add_argument("--episodes", type=int, default=5)
args = parser.parse_args()

# %% [markdown]
# The action mask of the last observation is in `info`; sampling with it never chooses an
# action that the environment does not permit.

# %%
env = gymnasium.make(args.env)
env.action_space.seed(0)
for episode in range(args.episodes):
    obs, info = env.reset(seed=episode)
    done, total, steps = False, 0.0, 0
    while not done:
        action = env.action_space.sample(mask=info.get("action_mask"))
        obs, reward, terminated, truncated, info = env.step(action)
        done = terminated or truncated
        total, steps = total + reward, steps + 1
    print(f"episode {episode}: return {total:.2f} in {steps} steps")
env.close()
