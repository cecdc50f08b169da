"""Writes sb3_run.json: whole trainings of DQN, with all that was random in them.

Run once with Python 3.11, torch 2.15.0, gymnasium 1.4.0 and stable-baselines3 2.9.2:

    python sb3_run.py > sb3_run.json
"""

import json

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

# The limit of 12 steps truncates most episodes; 100 timesteps do not divide by 2 * 16.
TIMESTEPS, LIMIT = 100, 12
COMMON = {
    "batch_size": 8, "learning_starts": 30, "train_freq": 16, "gradient_steps": 8, "target_update_interval": 10,
    "exploration_fraction": 0.5, "exploration_final_eps": 0.1, "buffer_size": 1000, "gamma": 0.9,
}
# Past the last timestep, as in a last whole rollout, a rate proportional to the remaining progress is negative
# without the max() here.
CASES = {
    "one environment": (1, {"learning_rate": 0.02}),
    "two environments": (2, {"learning_rate": 0.02}),
    "soft target, falling rate": (1, {"learning_rate": lambda remaining: 0.02 * max(remaining, 0), "tau": 0.5, "max_grad_norm": 0.5}),
    "as many gradient steps as transitions": (2, {"learning_rate": 0.01, "gradient_steps": -1, "train_freq": 4}),
}


def flat(net):
    """Returns parameters in Go's layout: dense weights are (inputs, outputs) there."""
    return [x for p in net.parameters() for x in p.detach().numpy().T.flatten().tolist()]


def run(n_envs, kwargs):
    torch.manual_seed(1)
    env = make_vec_env("CartPole-v1", n_envs, seed=1, env_kwargs={"max_episode_steps": LIMIT})
    model = DQN("MlpPolicy", env, seed=1, device="cpu", policy_kwargs={"net_arch": [6]}, **(COMMON | kwargs))
    out = {"n_envs": n_envs, "init": flat(model.q_net), "steps": [], "trainings": []}

    add, get, train, sample = (
        model.replay_buffer.add, model.replay_buffer._get_samples, model.train, model._sample_action)

    def record_sample(learning_starts, *args, **more):
        out["steps"].append({"eps": 1.0 if model.num_timesteps < learning_starts else float(model.exploration_rate)})
        return sample(learning_starts, *args, **more)

    def record_add(obs, next_obs, action, reward, done, infos):
        truncated = [bool(i.get("TimeLimit.truncated", False)) for i in infos]
        out["steps"][-1] |= {
            "obs": obs.flatten().tolist(), "next_obs": next_obs.flatten().tolist(), "action": action.flatten().tolist(),
            "reward": reward.tolist(), "terminated": [bool(d) and not t for d, t in zip(done, truncated)], "truncated": truncated}
        return add(obs, next_obs, action, reward, done, infos)

    def record_get(indices, env=None):
        # _get_samples draws the environments itself, so that its result must be looked up.
        data = get(indices, env)
        rows = []
        for step, obs in zip(indices.tolist(), data.observations.numpy()):
            envs = np.flatnonzero((model.replay_buffer.observations[step] == obs).all(axis=1))
            rows.append([step, int(envs[0])])
        out["trainings"][-1]["batches"].append(rows)
        return data

    def record_train(gradient_steps, batch_size):
        out["trainings"].append({"timestep": model.num_timesteps, "batches": []})
        train(gradient_steps, batch_size)
        out["trainings"][-1] |= {
            "loss": float(model.logger.name_to_value["train/loss"]), "rate": model.policy.optimizer.param_groups[0]["lr"]}

    model.replay_buffer.add, model.replay_buffer._get_samples = record_add, record_get
    model.train, model._sample_action = record_train, record_sample
    model.learn(TIMESTEPS)
    return out | {"timesteps": model.num_timesteps, "params": flat(model.q_net), "target": flat(model.q_net_target)}


def rounded(x):
    """Writes float32 with the nine digits that identify it."""
    if isinstance(x, float):
        return float(f"{x:.9g}")
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    return [rounded(v) for v in x] if isinstance(x, list) else x


if __name__ == "__main__":
    cases = {name: run(*case) for name, case in CASES.items()}
    print("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(rounded(v), separators=(',', ':'))}" for k, v in cases.items()) + "\n}")
