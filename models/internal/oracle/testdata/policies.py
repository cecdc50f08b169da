"""Writes policies.json: what policies of Stable-Baselines3 and sb3-contrib, and modules of PyTorch, compute.

Run once with Python 3.11, torch 2.15.0, stable-baselines3 2.9.2 and sb3-contrib 2.9.2:

    python policies.py > policies.json
"""

import json
import math

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy

T, N, OBS, CELLS = 5, 3, 4, 6
BOX = spaces.Box(-1, 1, (OBS,))


def numbers(shape, seed, scale=0.5):
    """Returns scale·sin(1+j+10·seed) for the j-th element, row-major, of shape."""
    n = int(np.prod(shape))
    return np.array([scale * math.sin(1 + j + 10 * seed) for j in range(n)], np.float32).reshape(shape)


def initialize(policy):
    """Sets parameters, in the order of the state_dict, in Go's layout: (inputs, outputs)."""
    for k, (_, p) in enumerate(policy.named_parameters()):
        values = numbers(tuple(p.shape)[::-1], k).T
        with torch.no_grad():
            p.copy_(torch.from_numpy(values.copy()))


def case(policy, outputs):
    outputs = outputs.reshape(T * N, -1)
    policy.zero_grad()
    (outputs * torch.from_numpy(numbers(tuple(outputs.shape), 99))).sum().backward()
    grads = {name: p.grad.t().flatten().tolist() for name, p in policy.named_parameters()}
    return {"outputs": outputs.flatten().tolist(), "grads": grads}


def recurrent(layers, **kwargs):
    policy = RecurrentActorCriticPolicy(
        BOX, spaces.Discrete(2), lambda _: 1e-3, net_arch=dict(pi=[8], vf=[8]),
        lstm_hidden_size=CELLS, n_lstm_layers=layers, **kwargs,
    )
    initialize(policy)
    # Rows are (steps, n) in Go and (n, steps) in sb3-contrib.
    obs = torch.from_numpy(numbers((T, N, OBS), 50)).swapaxes(0, 1).reshape(N * T, OBS)
    starts = torch.tensor([[float((2 * t + e) % 4 == 1) for t in range(T)] for e in range(N)]).flatten()
    lstms = 1 if policy.lstm_critic is None else 2
    # (n, LSTMs, layers, h and c, cells) in Go, (layers, n, cells) each in PyTorch
    state = torch.from_numpy(numbers((N, lstms, layers, 2, CELLS), 60))
    of = lambda i: tuple(state[:, i, :, j].swapaxes(0, 1).contiguous() for j in range(2))
    pi, _ = policy._process_sequence(obs, of(0), starts, policy.lstm_actor)
    if policy.lstm_critic is not None:
        vf, _ = policy._process_sequence(obs, of(1), starts, policy.lstm_critic)
    elif policy.shared_lstm:
        vf = pi.detach()
    else:
        vf = policy.critic(obs)
    logits = policy.action_net(policy.mlp_extractor.forward_actor(pi))
    value = policy.value_net(policy.mlp_extractor.forward_critic(vf))
    return case(policy, torch.cat([logits, value], 1).reshape(N, T, -1).swapaxes(0, 1))


def gaussian():
    policy = ActorCriticPolicy(BOX, spaces.Box(-1, 1, (2,)), lambda _: 1e-3, net_arch=dict(pi=[8], vf=[8]))
    initialize(policy)
    obs = torch.from_numpy(numbers((T * N, OBS), 50))
    d = policy.get_distribution(obs).distribution
    return case(policy, torch.cat([d.mean, policy.predict_values(obs), d.stddev.log()], 1))


def norm():
    class Policy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            nn = torch.nn
            self.tower = nn.Sequential(nn.Linear(OBS, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 7), nn.LayerNorm(7), nn.Tanh())
            self.head = nn.Linear(7, 2)

    policy = Policy()
    initialize(policy)
    return case(policy, policy.head(policy.tower(torch.from_numpy(numbers((T * N, OBS), 50)))))


def nodes():
    """A scorer of four nodes of three features, in the middle of an observation with five globals, with LSTMs."""
    n, features, before, after, width = 4, 3, 2, 3, 8
    size = before + n * features + after

    class Policy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            nn = torch.nn
            tower = lambda: nn.Sequential(nn.Linear(features + before + after + CELLS, width), nn.Tanh())
            self.mlp_extractor = nn.ModuleDict({"policy_net": tower(), "value_net": tower()})
            self.action_net, self.wait_net, self.value_net = nn.Linear(width, 1), nn.Linear(2 * width, 1), nn.Linear(2 * width, 1)
            self.lstm_actor = nn.LSTM(before + after + 2 * features, CELLS)
            self.lstm_critic = nn.LSTM(before + after + 2 * features, CELLS)

    pool = lambda x: torch.cat([x.mean(-2), x.max(-2).values], -1)
    policy = Policy()
    initialize(policy)
    obs = torch.from_numpy(numbers((T, N, size), 50))
    rows = obs[..., before : before + n * features].reshape(T, N, n, features)
    global_ = torch.cat([obs[..., :before], obs[..., before + n * features :]], -1)
    state = torch.from_numpy(numbers((N, 2, 1, 2, CELLS), 60))
    results = []
    for i, (lstm, name) in enumerate([(policy.lstm_actor, "policy_net"), (policy.lstm_critic, "value_net")]):
        h, c, memory = state[:, i, :, 0].swapaxes(0, 1), state[:, i, :, 1].swapaxes(0, 1), []
        for t in range(T):
            keep = torch.tensor([float((2 * t + e) % 4 != 1) for e in range(N)]).reshape(1, N, 1)
            y, (h, c) = lstm(torch.cat([global_[t], pool(rows[t])], -1)[None], (h * keep, c * keep))
            memory.append(y[0])
        beside = torch.cat([global_, torch.stack(memory)], -1)[:, :, None].expand(T, N, n, -1)
        results.append(policy.mlp_extractor[name](torch.cat([rows, beside], -1)))
    logits = policy.action_net(results[0])[..., 0]
    return case(policy, torch.cat([logits, policy.wait_net(pool(results[0])), policy.value_net(pool(results[1]))], -1))


CASES = {
    "lstm": recurrent(1),
    "lstm of two layers": recurrent(2),
    "shared lstm": recurrent(1, shared_lstm=True, enable_critic_lstm=False),
    "no critic lstm": recurrent(1, enable_critic_lstm=False),
    "gaussian": gaussian(),
    "layer norm": norm(),
    "nodes with lstms": nodes(),
}
print("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(c)}" for name, c in CASES.items()) + "}")
