"""Trains DQN with RL Zoo's CartPole settings here and in Stable-Baselines3, with the same seeds.

    python tools/bench_dqn.py --trainer .cache/trainer --seeds 501..540 --csv docs/learning_dqn.csv

A training is solved if its last policy, greedy, has a mean return of at least 475 over 100
held-out episodes. The parity of the two shares is a gate: the command fails if Fisher's exact test
rejects it at 5 %, and says by Newcombe's interval how large a difference the samples leave open.
The CSV file is read first and written after each training, so that a later run resumes.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import stable_baselines3
import torch
from scipy.stats import fisher_exact
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from statsmodels.stats.proportion import confint_proportions_2indep

SOLVED = 475  # the mean return at which Gymnasium calls CartPole-v1 solved
EPISODES = 100
LEAST_SEEDS = 40  # for each side: fewer would not show a difference of 0.3
HELD_OUT = 1_000_000_000  # random seed of the first evaluation episode, far from training's

# RL Baselines3 Zoo's hyperparams/dqn.yml, CartPole-v1: what trainer/hyperparams/rl_zoo says for ours.
SETTINGS = {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "gamma": 0.99,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
    "policy_kwargs": {"net_arch": [256, 256]},
}
TIMESTEPS = 50_000


def train_sb3(seed: int) -> float:
    """Returns the mean return of the last policy of a training of Stable-Baselines3."""
    model = DQN("MlpPolicy", Monitor(gymnasium.make("CartPole-v1")), seed=seed, device="cpu", **SETTINGS)
    model.learn(TIMESTEPS)
    env = Monitor(gymnasium.make("CartPole-v1"))
    env.reset(seed=HELD_OUT)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=EPISODES, deterministic=True)
    return float(mean)


def train_ours(trainer: str, seed: int) -> float:
    """Returns the same of a training of `trainer learning`."""
    command = [trainer, "learning", "--json", "--only", "DQN (RL Zoo)", "--seed", str(seed), "--seeds", "1"]
    command += ["--eval-episodes", str(EPISODES), "--log-folder", ".cache/learning"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    (row,) = json.loads(out.stdout)
    return float(row["returns"][0])


def verdict(returns: dict[str, list[float]]) -> tuple[str, bool]:
    """Returns the table of both sides with the test, and whether the gate is reached."""
    lines = ["| last policy, 100 episodes | seeds | reach 475 | mean |", "|---|--:|--:|--:|"]
    solved = {}
    for side, values in returns.items():
        solved[side] = sum(v >= SOLVED for v in values)
        lines.append(f"| {side} | {len(values)} | {solved[side]} | {np.mean(values):.0f} |")
    (k1, k2), (n1, n2) = solved.values(), (len(v) for v in returns.values())
    p = fisher_exact([[k1, n1 - k1], [k2, n2 - k2]]).pvalue
    low, high = confint_proportions_2indep(k1, n1, k2, n2, method="newcomb", compare="diff")
    lines.append(
        f"\nDifference of the shares {k1 / n1 - k2 / n2:+.2f} [{low:+.2f}, {high:+.2f}], Fisher's exact p = {p:.2f}."
    )
    return "\n".join(lines), p >= 0.05 and min(n1, n2) >= LEAST_SEEDS


def main() -> int:
    """Trains what the CSV file lacks, prints the verdict and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", required=True, help="the compiled command trainer")
    parser.add_argument("--seeds", default="501..540", help="FIRST..LAST")
    parser.add_argument("--csv", type=Path, required=True, help="results, read and written")
    args = parser.parse_args()
    first, last = map(int, args.seeds.split(".."))
    torch.set_num_threads(1)

    sides = {
        "ours": lambda seed: train_ours(args.trainer, seed),
        f"Stable-Baselines3 {stable_baselines3.__version__}": train_sb3,
    }
    done: dict[tuple[str, int], float] = {}
    if args.csv.exists():
        with args.csv.open(newline="") as f:
            done = {(row["side"], int(row["seed"])): float(row["return"]) for row in csv.DictReader(f)}
    for seed in range(first, last + 1):
        for side, train in sides.items():
            if (side, seed) in done:
                continue
            done[side, seed] = train(seed)
            print(f"{side}, seed {seed}: {done[side, seed]:.2f}", file=sys.stderr, flush=True)
            partial = args.csv.with_suffix(".tmp")
            with partial.open("w", newline="") as f:
                writer = csv.writer(f)
                writer.writerow(["side", "seed", "return"])
                writer.writerows([*key, f"{value:.2f}"] for key, value in sorted(done.items()))
            partial.replace(args.csv)
    returns = {side: [done[side, seed] for seed in range(first, last + 1)] for side in sides}
    table, ok = verdict(returns)
    print(table)
    if not ok:
        print(f"not reached: p < 0.05, or fewer than {LEAST_SEEDS} seeds a side", file=sys.stderr)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
