"""Trains PPO on CartPole with us, PureJaxRL, SBX and Stable-Baselines3, side by side in one run.

    python tools/bench_peers.py --ours .cache/benchtrainers --markdown .cache/peers.md --json .cache/peers.json

All sides have equal hyperparameters and two towers of 64 and 64, and may use every core. PureJaxRL is
tools/jax_ppo.py, which compiles environment and learner into one program; its seconds of compilation are reported
apart and not counted, whereas ours are those of the whole process from its start. The rounds are interleaved,
every second one in reverse order. The table has medians, and the ratio of ours to each peer's with a 95 %
interval by bootstrap over rounds.

With --baseline FILE, an earlier --json, it names each ratio that is lower by more than 5 % beyond chance, and
exits with 1.
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
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
REGRESSION = 0.05
FIGURES = {"rate": "wall", "per_cpu": "CPU"}  # steps per second of what


class Setting(NamedTuple):
    """Hyperparameters that differ, and how long to train."""

    name: str
    n_envs: int
    n_steps: int
    batch_size: int
    epochs: int
    steps: int  # of the compiled sides
    slow_steps: int  # of those that step in Python
    wanted: float | None  # our ratio to PureJaxRL


SETTINGS = [
    Setting("SB3's defaults", 8, 2048, 64, 10, 262_144, 16_384, 4),
    Setting("CleanRL's defaults", 4, 128, 128, 4, 524_288, 16_384, 3),
    Setting("64 environments", 64, 128, 1024, 4, 1_048_576, 65_536, 3),
    Setting("1,024 environments", 1024, 128, 16_384, 1, 2_621_440, 262_144, 2),
    Setting("RLtools' benchmark", 4, 1024, 256, 2, 1_048_576, 16_384, None),
]


def process(command: list[str | Path], stderr: int | None = None) -> tuple[dict[str, Any], float, float]:
    """Runs a command and returns the JSON that it prints, and its seconds of wall and processor time."""
    begun = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    assert child.stdout is not None
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return json.loads(text), wall, usage.ru_utime + usage.ru_stime


def ours(binary: Path, s: Setting, scale: float) -> dict[str, float]:
    """Trains with us. The time is that of the whole process."""
    config = {
        "n_steps": s.n_steps, "batch_size": s.batch_size, "n_epochs": s.epochs, "ent_coef": 0.01,
        "learning_rate": "lin_2.5e-4", "clip_range_vf": 0.2, "clip_vloss": True,
    }  # fmt: skip
    report, wall, used = process(
        [binary, "--n-envs", str(s.n_envs), "--steps", str(int(s.steps * scale)), "--config", json.dumps(config)]
    )
    n = report["steps"]
    return {"rate": n / wall, "per_cpu": n / used, "return": report["return"], "start_s": wall - report["wall_s"]}


def purejaxrl(s: Setting, scale: float) -> dict[str, float]:
    """Trains with tools/jax_ppo.py. The time of compilation is not counted."""
    report, _, _ = process(
        [sys.executable, HERE / "jax_ppo.py", "--n-envs", str(s.n_envs), "--n-steps", str(s.n_steps),
         "--batch-size", str(s.batch_size), "--epochs", str(s.epochs), "--steps", str(int(s.steps * scale))]
    )  # fmt: skip
    n = report["steps"]
    return {
        "rate": n / report["wall_s"], "per_cpu": n / report["cpu_s"], "return": report["return"],
        "start_s": report["compile_s"],
    }  # fmt: skip


def learn(library: str, s: Setting, steps: int) -> dict[str, float]:
    """Trains with Stable-Baselines3 or SBX in this process, for what --learn prints."""
    from stable_baselines3.common.env_util import make_vec_env

    begun = time.perf_counter()
    if library == "sbx":
        import flax.linen as nn
        from sbx import PPO

        policy: dict[str, Any] = {"net_arch": [64, 64], "activation_fn": nn.tanh}
    else:
        import torch
        from stable_baselines3 import PPO

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        policy = {"net_arch": [64, 64]}
    envs = make_vec_env("CartPole-v1", s.n_envs)
    model = PPO(
        "MlpPolicy", envs, n_steps=s.n_steps, batch_size=s.batch_size, n_epochs=s.epochs, ent_coef=0.01,
        learning_rate=lambda left: 2.5e-4 * left, clip_range_vf=None if library == "sbx" else 0.2, seed=1,
        policy_kwargs=policy, device="cpu",
    )  # fmt: skip
    model.learn(s.n_envs * s.n_steps)  # a rollout at rate 0, after which everything is compiled and allocated
    warm, used = time.perf_counter(), time.process_time()
    model.learn(steps)
    wall, cpu = time.perf_counter() - warm, time.process_time() - used
    returns = [e["r"] for e in model.ep_info_buffer] or [0.0]
    n = model.num_timesteps
    return {"rate": n / wall, "per_cpu": n / cpu, "return": float(np.mean(returns)), "start_s": warm - begun}


def learned(library: str, s: Setting, scale: float) -> dict[str, float]:
    """Trains with Stable-Baselines3 or SBX in a process of its own, without counting its first rollout."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--learn", library, "--setting", s.name, "--scale", str(scale)],
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    report: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return report


def interval(mine: list[float], other: list[float], draws: int = 10_000) -> tuple[float, float, float]:
    """Returns the ratio of two medians over the same rounds, and its 95 % interval by bootstrap over the rounds."""
    a, b = np.asarray(mine), np.asarray(other)
    picks = np.random.default_rng(1).integers(0, len(a), (draws, len(a)))
    ratios = np.median(a[picks], axis=1) / np.median(b[picks], axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(np.median(a) / np.median(b)), float(low), float(high)


def summary(rounds: list[dict[str, dict[str, dict[str, float]]]]) -> list[dict[str, Any]]:
    """Returns a line for each setting and peer from what each round measured, by setting and side."""
    rows = []
    for name, sides in rounds[0].items():
        for peer in sides:
            if peer == "ours":
                continue
            row: dict[str, Any] = {"setting": name, "peer": peer}
            for key in FIGURES:
                mine, other = ([r[name][side][key] for r in rounds] for side in ("ours", peer))
                row[key] = {
                    "ours": statistics.median(mine), "theirs": statistics.median(other),
                    "ratio": interval(mine, other),
                }  # fmt: skip
            for key in ("return", "start_s"):
                row[key] = {
                    who: statistics.median([r[name][side][key] for r in rounds])
                    for who, side in (("ours", "ours"), ("theirs", peer))
                }
            rows.append(row)
    return rows


def regressions(rows: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[str]:
    """Returns a sentence for each ratio whose interval lies below what it was by more than 5 %."""
    old = {(r["setting"], r["peer"]): r for r in before}
    found = []
    for r in rows:
        was = old.get((r["setting"], r["peer"]))
        for key, name in FIGURES.items():
            if was and r[key]["ratio"][2] < (1 - REGRESSION) * was[key]["ratio"][0]:
                found.append(
                    f"{r['setting']}, {r['peer']}, {name}: {r[key]['ratio'][0]:.2f}"
                    f" [{r[key]['ratio'][1]:.2f}, {r[key]['ratio'][2]:.2f}], was {was[key]['ratio'][0]:.2f}"
                )
    return found


def markdown(rows: list[dict[str, Any]], machine: str) -> str:
    """Returns the table."""
    lines = [
        machine,
        "",
        "| settings | peer | ours | theirs | ratio | ours/CPU-s | theirs/CPU-s | ratio | goal | return | its start |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    wanted = {s.name: s.wanted for s in SETTINGS}
    for r in rows:
        cells = [r["setting"], r["peer"]]
        for key in FIGURES:
            ratio, low, high = r[key]["ratio"]
            cells += [f"{r[key]['ours']:,.0f}", f"{r[key]['theirs']:,.0f}", f"{ratio:.2f} [{low:.2f}, {high:.2f}]"]
        goal = wanted[r["setting"]] if r["peer"] == "PureJaxRL" else None
        missed = goal is not None and min(r[key]["ratio"][0] for key in FIGURES) < goal
        cells.append("" if goal is None else f"≥ {goal:g}{' (missed)' if missed else ''}")
        cells.append(f"{r['return']['ours']:.0f}, {r['return']['theirs']:.0f}")
        cells.append(f"{r['start_s']['theirs']:.1f} s")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def measure(sides: dict[str, Callable[[Setting, float], dict[str, float]]], number: int, scale: float) -> list[Any]:
    """Measures the rounds."""
    rounds = []
    for i in range(number):
        order = list(sides) if i % 2 == 0 else list(reversed(sides))
        measured: dict[str, dict[str, dict[str, float]]] = {}
        for s in SETTINGS:
            print(f"round {i + 1} of {number}: {s.name}", file=sys.stderr)
            got = {side: sides[side](s, scale) for side in order}
            measured[s.name] = {side: got[side] for side in sides}
        rounds.append(measured)
    return rounds


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ours", type=Path, help="binary of tools/benchtrainers")
    parser.add_argument("--peer", action="append", help="PureJaxRL, SBX or Stable-Baselines3 (repeat); default: all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1, help="of all numbers of steps")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--baseline", type=Path, help="the --json of an earlier run")
    parser.add_argument("--learn", choices=["sb3", "sbx"], help=argparse.SUPPRESS)
    parser.add_argument("--setting", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.learn:
        s = next(s for s in SETTINGS if s.name == args.setting)
        print(json.dumps(learn(args.learn, s, int(s.slow_steps * args.scale))))
        return
    if args.ours is None:
        parser.error("--ours is required: go build -o .cache/benchtrainers ./tools/benchtrainers")
    sides: dict[str, Callable[[Setting, float], dict[str, float]]] = {
        "ours": lambda s, scale: ours(args.ours.resolve(), s, scale),
        "PureJaxRL": purejaxrl,
        "SBX": lambda s, scale: learned("sbx", s, scale),
        "Stable-Baselines3": lambda s, scale: learned("sb3", s, scale),
    }
    peers = args.peer or [side for side in sides if side != "ours"]
    if unknown := set(peers) - set(sides):
        parser.error(f"--peer {min(unknown)}: want PureJaxRL, SBX or Stable-Baselines3")
    sides = {side: run for side, run in sides.items() if side == "ours" or side in peers}
    rounds = measure(sides, args.rounds, args.scale)
    rows = summary(rounds)
    machine = (
        f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}; medians of {args.rounds} interleaved rounds; "
        "steps per second of wall time, and per second of processor time"
    )
    table = markdown(rows, machine)
    print(table)
    if args.json:
        args.json.write_text(
            json.dumps({"machine": machine, "rounds": rounds, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")
    if args.baseline:
        found = regressions(rows, json.loads(args.baseline.read_text(encoding="utf-8"))["rows"])
        print("\n".join(found) or "no ratio is lower by more than 5 %")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
