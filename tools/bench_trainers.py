"""Trains the same with our trainers and with Stable-Baselines3, side by side in one run.

    python tools/bench_trainers.py --ours .cache/benchtrainers --markdown .cache/trainers.md

Both sides train with Stable-Baselines3's default hyperparameters, 8 environments and as many
threads as processors; each figure is the median of interleaved rounds, in environment steps per
second of wall time and of processor time. Networks alone are compared with torch in eager mode.

On CartPole each side steps its own implementation. The environment of 512 numbers and 65 masked
actions costs next to nothing on either side. GangWindow, which exists in Go only, reaches
Stable-Baselines3 as its users would have it: over the wire from the bundled server.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

import kubernasium  # noqa: F401  registers the environments
from kubernasium.sb3 import VecEnv as WireVecEnv

N_ENVS = 8
CARTPOLE, GANG, WIDE = "classic/CartPole-v1", "k8s/GangWindow-v0", "toy/Wide-v0"
ALGOS = {"ppo": PPO, "a2c": A2C, "dqn": DQN, "maskable": MaskablePPO}


class Wide(VecEnv):
    """512 random numbers and 65 actions of which about half are permitted, for 200 steps."""

    def __init__(self, num_envs: int) -> None:
        """Makes num_envs environments."""
        super().__init__(num_envs, spaces.Box(0, 1, (512,), np.float32), spaces.Discrete(65))
        self.rng = np.random.default_rng(0)
        self.t = 0

    def _obs(self) -> np.ndarray:
        self.masks = self.rng.integers(0, 2, (self.num_envs, 65)).astype(bool)
        self.masks[:, 0] = True
        return self.rng.random((self.num_envs, 512), np.float32)

    def reset(self) -> np.ndarray:
        """Starts all episodes."""
        self.t = 0
        return self._obs()

    def step_async(self, actions: np.ndarray) -> None:
        """Takes the actions of the next step."""
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Steps all environments."""
        self.t += 1
        done = self.t % 200 == 0
        obs, rewards = self._obs(), self.actions.astype(np.float32) / 65
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done:
            infos = [{"terminal_observation": o, "TimeLimit.truncated": True} for o in obs]
        return obs, rewards, np.full(self.num_envs, done), infos

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Answers MaskablePPO's question for the masks."""
        assert method_name == "action_masks"
        return list(self.masks)

    def has_attr(self, attr_name: str) -> bool:
        """Whether the environments have masks."""
        return attr_name == "action_masks"

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Only render_mode is asked for."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing can be set."""

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Nothing is wrapped."""
        return [False] * self.num_envs

    def close(self) -> None:
        """Nothing is open."""


def make(env: str) -> VecEnv:
    """Returns the environments for Stable-Baselines3."""
    if env == CARTPOLE:
        return DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * N_ENVS)
    return Wide(N_ENVS) if env == WIDE else WireVecEnv(env, N_ENVS)


def theirs(algo: str, env: str, steps: int) -> dict[str, float]:
    """Trains with Stable-Baselines3."""
    kind = "maskable" if algo == "ppo" and env == WIDE else algo
    policy = "MlpPolicy"
    venv = make(env)
    model = ALGOS[kind](policy, venv, device="cpu", seed=1)
    begun, before = time.perf_counter(), time.process_time()
    model.learn(steps)
    wall, used = time.perf_counter() - begun, time.process_time() - before
    venv.close()
    return {"rate": model.num_timesteps / wall, "per_cpu": model.num_timesteps / used}


def ours(binary: Path, *args: str, threads: int) -> dict[str, Any]:
    """Trains with our trainers."""
    done = subprocess.run(
        [binary, *args], check=True, capture_output=True, text=True, env={**os.environ, "GOMAXPROCS": str(threads)}
    )
    r: dict[str, Any] = json.loads(done.stdout)
    n = r["steps"] or r["updates"]
    return {"rate": n / r["wall_s"], "per_cpu": n / r["cpu_s"], "kernels": r["kernels"]}


def torch_updates(n: int, batch: int) -> dict[str, float]:
    """Makes n updates of the network alone: what tools/benchtrainers does with --algo update."""
    torch.manual_seed(1)

    def tower(out: int) -> torch.nn.Sequential:
        nn = torch.nn
        return nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out))

    policy, value = tower(8), tower(1)
    params = [*policy.parameters(), *value.parameters()]
    adam = torch.optim.Adam(params, lr=3e-4, eps=1e-5)
    obs, actions = torch.randn(batch, 32), torch.arange(batch) % 8
    begun, before = time.perf_counter(), time.process_time()
    for _ in range(n):
        logp = torch.log_softmax(policy(obs), 1)
        entropy = -(logp.exp() * logp).sum(1).mean()
        loss = -logp[torch.arange(batch), actions].mean() - 0.01 * entropy + 0.5 * value(obs).pow(2).mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 0.5)
        adam.step()
    return {"rate": n / (time.perf_counter() - begun), "per_cpu": n / (time.process_time() - before)}


# (what, environment, algorithm, our steps, their steps, factor to reach with AVX-512, with AVX2)
TRAININGS = [
    ("CartPole", CARTPOLE, "ppo", 131072, 16384, 15, 10),
    ("CartPole", CARTPOLE, "a2c", 400_000, 16_000, 20, 20),
    ("CartPole", CARTPOLE, "dqn", 400_000, 40_000, 15, 15),
    ("512 obs, 65 masked actions", WIDE, "ppo", 32768, 16384, 5, 2.5),
    ("GangWindow", GANG, "ppo", 65536, 16384, None, None),
    ("GangWindow", GANG, "a2c", 200_000, 16_000, None, None),
]
UPDATES = [(64, 4000, 400), (256, 2000, 300), (2048, 400, 100)]


class Row:
    """One line of the table: both sides' figures of each round."""

    def __init__(self, what: str, algo: str, threads: int, wanted: dict[str, float | None]) -> None:
        """Begins without figures."""
        self.what, self.algo, self.threads, self.wanted = what, algo, threads, wanted
        self.ours: list[dict[str, Any]] = []
        self.theirs: list[dict[str, float]] = []

    def add(self, mine: Callable[[], dict[str, Any]], other: Callable[[], dict[str, float]]) -> None:
        """Measures one round of both sides."""
        self.ours.append(mine())
        self.theirs.append(other())

    def report(self) -> dict[str, Any]:
        """Returns the medians."""

        def median(side: list[dict[str, Any]], key: str) -> float:
            return statistics.median(r[key] for r in side)

        factor = median(self.ours, "rate") / median(self.theirs, "rate")
        wanted = self.wanted.get(self.ours[0]["kernels"])
        return {
            "what": self.what, "algo": self.algo, "threads": self.threads, "kernels": self.ours[0]["kernels"],
            "ours": median(self.ours, "rate"), "theirs": median(self.theirs, "rate"), "factor": factor,
            "ours_per_cpu": median(self.ours, "per_cpu"), "theirs_per_cpu": median(self.theirs, "per_cpu"),
            "wanted": wanted, "reached": None if wanted is None else factor >= wanted,
        }  # fmt: skip


def measure(binary: Path, rounds: int, scale: float) -> list[dict[str, Any]]:
    """Measures everything."""
    rows: list[Row] = []
    jobs: list[Callable[[], None]] = []

    def training(row: Row, env: str, algo: str, mine: int, other: int) -> None:
        torch.set_num_threads(row.threads)
        row.add(
            lambda: ours(binary, "--algo", algo, "--env", env, "--steps", str(mine), threads=row.threads),
            lambda: theirs(algo, env, other),
        )

    def updates(row: Row, batch: int, mine: int, other: int) -> None:
        torch.set_num_threads(row.threads)
        args = ("--algo", "update", "--batch", str(batch), "--steps", str(mine))
        row.add(lambda: ours(binary, *args, threads=row.threads), lambda: torch_updates(other, batch))

    cores = len(os.sched_getaffinity(0))
    for threads in dict.fromkeys((min(2, cores), 1)):
        for what, env, algo, mine, other, avx512, avx2 in TRAININGS:
            if threads == 1 and env == GANG:
                continue  # the server would still use every core
            row = Row(what, algo, threads, {"avx512": avx512, "avx2": avx2} if threads > 1 else {})
            rows.append(row)
            mine, other = int(mine * scale), int(other * scale)
            jobs.append(lambda row=row, a=(env, algo, mine, other): training(row, *a))
        for batch, mine, other in UPDATES:
            row = Row(f"updates of {batch} rows", "network", threads, {})
            rows.append(row)
            a = (batch, int(mine * scale), int(other * scale))
            jobs.append(lambda row=row, a=a: updates(row, *a))
    for number in range(rounds):
        for i, job in enumerate(jobs):
            print(f"round {number + 1} of {rounds}: {rows[i].what}, {rows[i].algo}, {rows[i].threads}", file=sys.stderr)
            job()
    return [row.report() for row in rows]


def markdown(rows: list[dict[str, Any]], rounds: int) -> str:
    """Returns the table."""
    lines = [
        f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, kernels {rows[0]['kernels']}; "
        f"Stable-Baselines3 {stable_baselines3.__version__}, torch {torch.__version__} "
        f"({torch.backends.cpu.get_cpu_capability()}); {N_ENVS} environments; median of {rounds} interleaved rounds. "
        "Steps per second of wall time, and per second of processor time.",
        "",
        "| training | algorithm | threads | ours | theirs | factor | target | ours/CPU-s | theirs/CPU-s |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for r in rows:
        wanted = "" if r["wanted"] is None else f"≥ {r['wanted']:g}{'' if r['reached'] else ' (missed)'}"
        lines.append(
            f"| {r['what']} | {r['algo']} | {r['threads']} | {r['ours']:,.0f} | {r['theirs']:,.0f} "
            f"| {r['factor']:.1f} | {wanted} | {r['ours_per_cpu']:,.0f} | {r['theirs_per_cpu']:,.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ours", type=Path, required=True, help="binary of tools/benchtrainers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1, help="of all numbers of steps")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    rows = measure(args.ours, args.rounds, args.scale)
    table = markdown(rows, args.rounds)
    print(table)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
