"""Measures collection with two half vectors beside the plain loop, in environment steps per second.

    python clients/python/bench/bench_double_buffer.py

The policy is a network of two layers of 256 units in NumPy, or in PyTorch if it is installed. Both ways are measured in
turn, round after round, so that whatever else the machine does meets both alike; the ratio is the median of the
rounds' ratios.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kubernasium
from kubernasium.double_buffer import DoubleBuffer

Policy = Callable[[Any], np.ndarray]


def network(inputs: int, outputs: int) -> Policy:
    """Returns a policy that chooses the best of outputs actions."""
    rng = np.random.default_rng(0)
    shapes = [(inputs, 256), (256, 256), (256, outputs)]
    weights = [rng.normal(0, 0.1, shape).astype(np.float32) for shape in shapes]
    if importlib.util.find_spec("torch") is None:

        def act(obs: np.ndarray) -> np.ndarray:
            for weight in weights[:-1]:
                obs = np.tanh(obs @ weight)
            return (obs @ weights[-1]).argmax(axis=1)

        return act
    import torch

    torch.set_num_threads(1)
    tensors = [torch.from_numpy(weight) for weight in weights]

    def act_torch(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            hidden = torch.from_numpy(obs)
            for weight in tensors[:-1]:
                hidden = torch.tanh(hidden @ weight)
            return (hidden @ tensors[-1]).argmax(dim=1).numpy()

    return act_torch


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", action="append", help="default: GangWindow and CartPole")
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100, help="of a round")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    print("| environment | N | plain (steps/s) | two halves (steps/s) | ratio |\n|---|--:|--:|--:|--:|")
    for env_id in args.env or ["k8s/GangWindow-v0", "classic/CartPole-v1"]:
        with (
            kubernasium.make_vec(env_id, args.num_envs) as whole,
            DoubleBuffer(env_id, args.num_envs) as halves,
        ):
            act = network(whole.single_observation_space.shape[0], int(whole.single_action_space.n))
            obs = whole.reset(seed=0)[0]
            halves.async_reset(seed=0)
            plain, double = [], []
            for _ in range(args.rounds):
                start = time.perf_counter()
                for _ in range(args.steps):
                    obs = whole.step(act(obs))[0]
                middle = time.perf_counter()
                for _ in range(2 * args.steps):
                    halves.send(act(halves.recv()[0]))
                end = time.perf_counter()
                plain.append(args.num_envs * args.steps / (middle - start))
                double.append(args.num_envs * args.steps / (end - middle))
            ratio = statistics.median(d / p for d, p in zip(double, plain, strict=True))
            rates = f"{statistics.median(plain):,.0f} | {statistics.median(double):,.0f}"
            print(f"| {env_id} | {args.num_envs} | {rates} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
