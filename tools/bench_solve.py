"""Trains PPO on CartPole-v1 until an evaluation reaches 475, and times the whole process.

    python tools/bench_solve.py --trainer .cache/trainer --markdown .cache/solve.md

The hyperparameters are the trainer's own, which are RL Zoo's; every 5,000 steps ten held-out episodes are played. A
seed that does not reach 475 within the training counts as infinite. The table has each of ten seeds and the median.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench_peers import process

THRESHOLD, EVAL_FREQ, SEEDS = 475, 5000, range(1, 11)


class Solved(NamedTuple):
    """One training."""

    seed: int
    steps: int
    final: float  # mean return of the last evaluation
    wall: float  # seconds from the start of the process to its end
    cpu: float


def solve(trainer: Path, seed: int) -> Solved:
    """Trains with a seed."""
    with tempfile.TemporaryDirectory() as folder:
        report, wall, used = process(
            [trainer, "train", "--algo", "ppo", "--env", "classic/CartPole-v1", "--reward-threshold", str(THRESHOLD),
             "--eval-freq", str(EVAL_FREQ), "--seed", str(seed), "--log-folder", folder, "--json"],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    solved = report["eval_mean"] >= THRESHOLD
    return Solved(seed, report["timesteps"], report["eval_mean"], wall if solved else float("inf"), used)


def markdown(runs: list[Solved]) -> str:
    """Returns the table."""
    lines = ["| seed | steps | evaluation | seconds | CPU-s |", "|--:|--:|--:|--:|--:|"]
    lines += [f"| {r.seed} | {r.steps:,} | {r.final:.1f} | {r.wall:.2f} | {r.cpu:.2f} |" for r in runs]
    steps, wall, cpu = (statistics.median(getattr(r, name) for r in runs) for name in ("steps", "wall", "cpu"))
    lines.append(f"| median | {steps:,.0f} | | {wall:.2f} | {cpu:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trainer", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    table = markdown([solve(args.trainer.resolve(), seed) for seed in SEEDS])
    print(table)
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
