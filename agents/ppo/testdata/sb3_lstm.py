"""Writes sb3_lstm.json: what RecurrentPPO makes of the rollouts of TestAgainstRecurrentPPO.

Run once with Python 3.11, torch 2.15.0, stable-baselines3 2.9.2 and sb3-contrib 2.9.2:

    python sb3_lstm.py > sb3_lstm.json
"""

import sys
from pathlib import Path

import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.vec_env import DummyVecEnv

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agentstest" / "testdata"))

import sb3_common as common
from sb3_common import N, T, obs

ROLLOUTS = 2
# What Learner samples from the first parameters with seed 1, by case; the test compares it.
ACTIONS = {
    "separate": [[0, 1], [0, 2], [1, 2], [0, 0], [0, 0], [2, 2], [2, 1], [1, 2]],
    "shared": [[0, 1], [0, 2], [1, 2], [0, 0], [0, 0], [2, 2], [2, 1], [1, 2]],
    "dense": [[0, 1], [0, 2], [1, 2], [0, 0], [0, 0], [2, 2], [2, 1], [1, 2]],
}
TRUNCATED = common.TRUNCATED | {(5, 0)}

CASES = {
    "separate": {"lstm_hidden_size": 3, "n_lstm_layers": 2},
    "shared": {"lstm_hidden_size": 3, "shared_lstm": True, "enable_critic_lstm": False},
    "dense": {"lstm_hidden_size": 3, "enable_critic_lstm": False},
}


def names(policy):
    """The names of the parameters in the order of models.ParamLayout."""
    all_names = [name for name, _ in policy.named_parameters()]
    first = [n for n in all_names if n.startswith(("mlp_extractor", "action_net", "value_net"))]
    first.sort(key=lambda n: ("mlp_extractor.policy", "mlp_extractor.value", "action_net", "value_net").index(
        next(p for p in ("mlp_extractor.policy", "mlp_extractor.value", "action_net", "value_net") if n.startswith(p))))
    return first + [n for n in all_names if n.startswith("lstm_actor")] + [n for n in all_names if n.startswith(("lstm_critic", "critic"))]


def run(case, policy_kwargs):
    model = RecurrentPPO(
        "MlpLstmPolicy", DummyVecEnv([common.Spaces] * N), learning_rate=0.05, n_steps=T, batch_size=T * N, n_epochs=3,
        gamma=0.9, gae_lambda=0.8, ent_coef=0.01, device="cpu",
        policy_kwargs=common.policy_kwargs(**policy_kwargs))
    common.silence(model)
    common.initialize(model.policy, names(model.policy))
    states, starts = model._last_lstm_states, np.ones(N)
    buf, log_probs, advantages, returns = model.rollout_buffer, [], [], []
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
            reward = np.array(common.REWARD[t % T], np.float64)
            for n in range(N):
                if (t, n) in TRUNCATED:  # as collect_rollouts does
                    own = tuple(s[:, n : n + 1, :].contiguous() for s in after.vf)
                    with torch.no_grad():
                        reward[n] += model.gamma * model.policy.predict_values(tensor([common.FINAL_OBS]), own, tensor([0])).item()
            buf.add(obs(t), a.numpy().reshape(N, 1), reward, starts, v, log_prob, lstm_states=states)
            starts = common.ends(t, TRUNCATED)
            states = after
        with torch.no_grad():
            last = model.policy.predict_values(tensor(obs((k + 1) * T)), states.vf, tensor(starts))
        buf.compute_returns_and_advantage(last_values=last, dones=starts)
        advantages += buf.advantages.flatten().tolist()
        returns += buf.returns.flatten().tolist()
        model.train()
        states = RNNStates(*(tuple(s.detach() for s in part) for part in states))
    return {
        "actions": [float(a) for row in ACTIONS[case] for a in row], "log_probs": log_probs,
        "advantages": advantages, "returns": returns, "metrics": common.metrics(model),
        "params": common.flat(model.policy, names(model.policy)),
    }


common.write({name: run(name, kwargs) for name, kwargs in CASES.items()})
