"""What the scripts that write testdata/*.json of Stable-Baselines3 have in common.

A rollout of T steps of N environments with two numbers as observation and three actions, first
parameters that Go can compute, and what a model makes of them. SB3Rollout and SetSine in sb3.go
are the same.
"""

import json
import math

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.logger import Logger

T, N = 4, 2
ACTIONS = [[0, 1], [0, 1], [1, 2], [1, 0]]
REWARD = [[1, -0.5], [0.5, 2], [-1, 0], [1.5, 1]]
TERMINATED = {(1, 0)}
TRUNCATED = {(2, 1)}
FINAL_OBS = [2, -1]

ACTOR_CRITIC = [
    prefix + suffix
    for prefix in ("mlp_extractor.policy_net.0", "mlp_extractor.value_net.0", "action_net", "value_net")
    for suffix in (".weight", ".bias")
]


class Spaces(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Discrete(3)


def obs(t):
    return np.array([[0.25 * t - 0.5 * n, 0.5 - 0.125 * t * (n + 1)] for n in range(N)], np.float32)


def ends(t, truncated):
    """Returns for each environment whether step t ends its episode."""
    return np.array([(t, n) in TERMINATED or (t, n) in truncated for n in range(N)], np.float64)


def policy_kwargs(**more):
    """Returns new arguments for each model: A2C adds its optimizer to what it is given."""
    return {"net_arch": {"pi": [2], "vf": [2]}, "activation_fn": torch.nn.Tanh} | more


def silence(model):
    """Makes train() usable without learn()."""
    model._logger = Logger(None, [])
    model._current_progress_remaining = 1


def initialize(net, names, shift=0):
    """Gives the parameters of these names their first values."""
    for k, name in enumerate(names):
        p = net.get_parameter(name)
        v = np.array([0.5 * math.sin(1 + j + 10 * k + shift) for j in range(p.numel())], np.float32)
        # Dense weights are (inputs, outputs) in Go and (outputs, inputs) here.
        v = v.reshape(tuple(p.shape)[::-1]).T
        with torch.no_grad():
            p.copy_(torch.from_numpy(v.copy()))


def flat(net, names):
    """Returns these parameters in Go's layout."""
    return [x for name in names for x in net.get_parameter(name).detach().numpy().T.flatten().tolist()]


def metrics(model):
    values = {k: float(v) for k, v in model.logger.name_to_value.items()}
    del values["train/learning_rate"]
    return values


def collect(model, mask=None):
    """Fills the rollout buffer as collect_rollouts does, with ACTIONS, and returns their log-probabilities."""
    buf = model.rollout_buffer
    buf.reset()
    log_probs, starts = [], np.ones(N)

    def values(o):
        with torch.no_grad():
            return model.policy.predict_values(torch.as_tensor(np.asarray(o, np.float32)))

    for t in range(T):
        a, masks = torch.tensor(ACTIONS[t]), {} if mask is None else {"action_masks": mask(t)}
        with torch.no_grad():
            v, log_prob, _ = model.policy.evaluate_actions(torch.from_numpy(obs(t)), a, **masks)
        log_probs += log_prob.tolist()
        reward = np.array(REWARD[t], np.float64)
        for n in range(N):
            if (t, n) in TRUNCATED:
                reward[n] += model.gamma * values([FINAL_OBS]).item()
        buf.add(obs(t), a.numpy().reshape(N, 1), reward, starts, v, log_prob, **masks)
        starts = ends(t, TRUNCATED)
    buf.compute_returns_and_advantage(last_values=values(obs(T)), dones=starts)
    return log_probs


def learn(model, mask=None):
    """Returns what an actor-critic model makes of the rollout."""
    silence(model)
    initialize(model.policy, ACTOR_CRITIC)
    log_probs, buf = collect(model, mask), model.rollout_buffer
    result = {
        "actions": [float(a) for row in ACTIONS for a in row],
        "log_probs": log_probs,
        "advantages": buf.advantages.flatten().tolist(),
        "returns": buf.returns.flatten().tolist(),
    }
    model.train()
    return result | {"metrics": metrics(model), "params": flat(model.policy, ACTOR_CRITIC)}


def write(results):
    """Prints results by case, each on a line."""
    print("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in results.items()) + "\n}")
