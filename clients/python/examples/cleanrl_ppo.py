# %% [markdown]
# # PPO in one file
# CleanRL's loop on `gymnasium.make_vec`, with PyTorch for the networks alone. The
# environments are reset by the step after an episode's last one (NEXT_STEP, the default): that
# step's action is ignored and its transition is left out of the loss.
#
# `pip install ./clients/python gymnasium torch`, then `python cleanrl_ppo.py`.

# %%
import argparse
import time

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import kubernasium  # noqa: F401  registers the environments

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="classic/CartPole-v1")
parser.add_argument("--timesteps", type=int, default=200_000)
parser.add_argument("--num-envs", type=int, default=16)
parser.add_argument("--num-steps", type=int, default=128)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
gamma, gae_lambda, clip, ent_coef, vf_coef, epochs, minibatches = 0.99, 0.95, 0.2, 0.01, 0.5, 4, 4

# %%
torch.set_num_threads(1)  # networks this small are slower with more
torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)
envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.make_vec(args.env, num_envs=args.num_envs))
obs_dim = int(np.prod(envs.single_observation_space.shape))
num_actions = int(envs.single_action_space.n)


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


actor = nn.Sequential(layer(obs_dim, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, num_actions, 0.01))
critic = nn.Sequential(layer(obs_dim, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
parameters = [*actor.parameters(), *critic.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3, eps=1e-5)


def policy(obs: torch.Tensor, mask: torch.Tensor) -> Categorical:
    return Categorical(logits=actor(obs).masked_fill(mask == 0, -1e8))


# %% [markdown]
# Storage of one rollout: T steps of N environments. `valid` is 0 for the steps that reset.

# %%
T, N = args.num_steps, args.num_envs
obs_buf = torch.zeros(T, N, obs_dim)
mask_buf = torch.ones(T, N, num_actions)
act_buf = torch.zeros(T, N, dtype=torch.int64)
logp_buf, rew_buf, val_buf, end_buf, valid = (torch.zeros(T, N) for _ in range(5))
returns: list[float] = []
start = time.time()

obs, infos = envs.reset(seed=args.seed)
done = np.zeros(N, bool)
for iteration in range(max(1, args.timesteps // (T * N))):
    for t in range(T):
        obs_buf[t] = torch.as_tensor(obs.reshape(N, -1))
        mask_buf[t] = torch.as_tensor(infos["action_mask"])
        with torch.no_grad():
            chosen = policy(obs_buf[t], mask_buf[t])
            act_buf[t] = chosen.sample()
            logp_buf[t] = chosen.log_prob(act_buf[t])
            val_buf[t] = critic(obs_buf[t]).squeeze(-1)
        valid[t] = torch.as_tensor(~done)
        obs, reward, terminated, truncated, infos = envs.step(act_buf[t].numpy())
        done = terminated | truncated
        rew_buf[t] = torch.as_tensor(reward)
        # A truncated episode's value is not 0: the next row is its last observation's.
        end_buf[t] = torch.as_tensor(terminated)
        if "episode" in infos:
            returns += infos["episode"]["r"][infos["_episode"]].tolist()
    with torch.no_grad():
        next_value = critic(torch.as_tensor(obs.reshape(N, -1))).squeeze(-1)
        adv_buf, adv = torch.zeros(T, N), torch.zeros(N)
        next_valid = torch.as_tensor(~done).float()  # whether the next step belongs to this episode
        for t in reversed(range(T)):
            delta = rew_buf[t] + gamma * (1 - end_buf[t]) * next_value - val_buf[t]
            adv = (delta + gamma * gae_lambda * next_valid * adv) * valid[t]
            adv_buf[t] = adv
            next_value, next_valid = val_buf[t], valid[t]
        ret_buf = adv_buf + val_buf
    rows = valid.flatten().nonzero().squeeze(-1).numpy()
    batch = [b.flatten(0, 1) for b in (obs_buf, mask_buf, act_buf, logp_buf, adv_buf, ret_buf)]
    for _ in range(epochs):
        for part in np.array_split(rng.permutation(rows), minibatches):
            o, m, a, old_logp, adv, ret = (b[part] for b in batch)
            new = policy(o, m)
            ratio = (new.log_prob(a) - old_logp).exp()
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
            value_loss = 0.5 * (critic(o).squeeze(-1) - ret).pow(2).mean()
            loss = -surrogate + vf_coef * value_loss - ent_coef * new.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    steps = (iteration + 1) * T * N
    recent = np.mean(returns[-50:]) if returns else float("nan")
    print(f"{steps:8,d} steps  {steps / (time.time() - start):7,.0f} steps/s  return {recent:8.2f}")
envs.close()
