"""`kubernasium.Policy` beside the same network in PyTorch and in Stable-Baselines3: time of an answer.

All take turns in rounds; the table has medians over rounds, of one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import kubernasium

MODEL = Path(__file__).resolve().parents[3] / "models/pretrained/classic-CartPole-v1/ppo.safetensors"


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=str(MODEL), help="of an environment with 4 numbers and 2 actions")
    parser.add_argument("--rounds", type=int, default=21)
    args = parser.parse_args()
    torch.set_num_threads(1)
    policy, theirs = kubernasium.Policy(args.model), kubernasium.load_sb3(args.model)
    obs, batch, mask = np.array([0, 0, 0.1, 0.5], np.float32), np.zeros((256, 4), np.float32), np.ones(2, np.int8)
    row = torch.from_numpy(obs[None])

    def by_torch() -> int:
        with torch.no_grad():
            latent = theirs.policy.mlp_extractor.policy_net(row)
            return int(theirs.policy.action_net(latent).argmax())

    calls: dict[str, tuple[Callable[[], Any], int]] = {
        "`policy(obs)`": (lambda: policy(obs), 2000),
        "`policy(obs, mask)`": (lambda: policy(obs, mask), 2000),
        "`policy.predict(obs)`": (lambda: policy.predict(obs, deterministic=True), 300),
        "`policy(batch)`, 256 rows": (lambda: policy(batch), 100),
        "PyTorch, the network alone": (by_torch, 300),
        "Stable-Baselines3, `predict(obs)`": (lambda: theirs.predict(obs, deterministic=True), 50),
        "Stable-Baselines3, `predict(batch)`, 256 rows": (lambda: theirs.predict(batch, deterministic=True), 50),
    }
    micros: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(args.rounds):
        for name, (call, n) in calls.items():
            begin = time.perf_counter()
            for _ in range(n):
                call()
            micros[name].append((time.perf_counter() - begin) / n * 1e6)
    print("| call | µs, median | least … most |\n|---|--:|--:|")
    for name, values in micros.items():
        print(f"| {name} | {statistics.median(values):.1f} | {min(values):.1f} … {max(values):.1f} |")


if __name__ == "__main__":
    main()
