"""Writes sb3_lstm.json: what RecurrentPPO makes of the rollouts of TestAgainstRecurrentPPO.

Run once with Python 3.11, torch 2.15.0, stable-baselines3 2.9.2 and sb3-contrib 2.9.2:

    python sb3_lstm.py > sb3_lstm.json
"""

import json
import math

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

T, N, ROLLOUTS = 4, 2, 2
# What Learner samples from the first parameters with seed 1, by case; the test compares it.
ACTIONS = {
    "separate": [[0, 1], [0, 2], [1, 2], [0, 0], [0, 0], [2, 2], [2, 1], [1, 2]],
    "shared": [[0, 1], [0, 2], [1, 2], [0, 0], [0, 0], [2, 2], [2, 1], [1, 2]],
    "dense": [[0, 1], [0, 2], [1, 2], [0, 0], [0, 0], [2, 2], [2, 1], [1, 2]],
}
REWARD = [[1, -0.5], [0.5, 2], [-1, 0], [1.5, 1]]
TERMINATED = {(1, 0)}
TRUNCATED = {(2, 1), (5, 0)}
FINAL_OBS = [2, -1]

CASES = {
    "separate": {"lstm_hidden_size": 3, "n_lstm_layers": 2},
    "shared": {"lstm_hidden_size": 3, "shared_lstm": True, "enable_critic_lstm": False},
    "dense": {"lstm_hidden_size": 3, "enable_critic_lstm": False},
}


def obs(t):
    return np.array([[0.25 * t - 0.5 * n, 0.5 - 0.125 * t * (n + 1)] for n in range(N)], np.float32)


class Spaces(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Discrete(3)


def names(policy):
    """The names of the parameters in the order of models.ParamLayout."""
    all_names = [name for name, _ in policy.named_parameters()]
    first = [n for n in all_names if n.startswith(("mlp_extractor", "action_net", "value_net"))]
    first.sort(key=lambda n: ("mlp_extractor.policy", "mlp_extractor.value", "action_net", "value_net").index(
        next(p for p in ("mlp_extractor.policy", "mlp_extractor.value", "action_net", "value_net") if n.startswith(p))))
    return first + [n for n in all_names if n.startswith("lstm_actor")] + [n for n in all_names if n.startswith(("lstm_critic", "critic"))]


def initialize(policy):
    for k, name in enumerate(names(policy)):
        p = policy.get_parameter(name)
        v = np.array([0.5 * math.sin(1 + j + 10 * k) for j in range(p.numel())], np.float32)
        # Dense weights are (inputs, outputs) in Go and (outputs, inputs) here.
        v = v.reshape(tuple(p.shape)[::-1]).T
        with torch.no_grad():
            p.copy_(torch.from_numpy(v.copy()))


def run(case, policy_kwargs):
    model = RecurrentPPO(
        "MlpLstmPolicy", DummyVecEnv([Spaces] * N), learning_rate=0.05, n_steps=T, batch_size=T * N, n_epochs=3,
        gamma=0.9, gae_lambda=0.8, ent_coef=0.01, device="cpu",
        policy_kwargs={"net_arch": {"pi": [2], "vf": [2]}, "activation_fn": torch.nn.Tanh, **policy_kwargs})
    model._logger = Logger(None, [])
    model._current_progress_remaining = 1
    initialize(model.policy)
    states, starts = model._last_lstm_states, np.ones(N)
    buf, result, log_probs, advantages, returns = model.rollout_buffer, {}, [], [], []
    tensor = lambda x: torch.as_tensor(np.asarray(x, np.float32))
    np.random.randint = lambda *_: 0  # the rotation of the rows
    for k in range(ROLLOUTS):
        buf.reset()
        for t in range(k * T, (k + 1) * T):
            a = torch.tensor(ACTIONS[case][t])
            with torch.no_grad():
                _, v, _, after = model.policy(tensor(obs(t)), states, tensor(starts))
                log_prob = model.policy.get_distribution(tensor(obs(t)), states.pi, tensor(starts))[0].log_prob(a)
            log_probs += log_prob.tolist()
            reward = np.array(REWARD[t % T], np.float64)
            for n in range(N):
                if (t, n) in TRUNCATED:  # as collect_rollouts does
                    own = tuple(s[:, n : n + 1, :].contiguous() for s in after.vf)
                    with torch.no_grad():
                        reward[n] += model.gamma * model.policy.predict_values(tensor([FINAL_OBS]), own, tensor([0])).item()
            buf.add(obs(t), a.numpy().reshape(N, 1), reward, starts, v, log_prob, lstm_states=states)
            starts = np.array([(t, n) in TERMINATED or (t, n) in TRUNCATED for n in range(N)], np.float64)
            states = after
        with torch.no_grad():
            last = model.policy.predict_values(tensor(obs((k + 1) * T)), states.vf, tensor(starts))
        buf.compute_returns_and_advantage(last_values=last, dones=starts)
        advantages += buf.advantages.flatten().tolist()
        returns += buf.returns.flatten().tolist()
        model.train()
        states = RNNStates(*(tuple(s.detach() for s in part) for part in states))
    metrics = {k: float(v) for k, v in model.logger.name_to_value.items()}
    del metrics["train/learning_rate"]
    return {
        "actions": [float(a) for row in ACTIONS[case] for a in row], "log_probs": log_probs,
        "advantages": advantages, "returns": returns, "metrics": metrics,
        "params": [x for name in names(model.policy) for x in model.policy.get_parameter(name).detach().numpy().T.flatten().tolist()],
    }


print("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(run(k, v))}" for k, v in CASES.items()) + "\n}")
