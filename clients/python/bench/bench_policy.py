"""`kubernasium.Policy` beside onnxruntime, PyTorch and Stable-Baselines3: time of an answer of the same model.

All take turns in rounds; the tables have medians over rounds, of one thread. The first table compares shipped models in
onnxruntime, if it is installed, with files that `trainer export` writes; the second one CartPole's ppo in PyTorch.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kubernasium

REPOSITORY = Path(__file__).resolve().parents[3]
PRETRAINED = REPOSITORY / "models/pretrained"
CARTPOLE = "classic-CartPole-v1/ppo"
MODELS = [
    "classic-CartPole-v1/dqn",
    CARTPOLE,
    "k8s-GangForecast-v0/ppo",
    "k8s-PodBalance-v0/ppo",
    "k8s-GPUPodScheduling-v0/ppo",
    "k8s-LRAPlacement-v0/ppo",
]
BATCH = 64

Calls = dict[str, tuple[Callable[[], Any], int]]


def measure(calls: Calls, rounds: int) -> dict[str, list[float]]:
    """Returns the microseconds of each call, by round."""
    micros: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, (call, n) in calls.items():
            begin = time.perf_counter()
            for _ in range(n):
                call()
            micros[name].append((time.perf_counter() - begin) / n * 1e6)
    return micros


def onnx_policy(path: Path, parts: list[str] | None) -> tuple[Callable[[Any], np.ndarray], Callable[[Any], np.ndarray]]:
    """Returns functions of a batch of observations, by onnxruntime: to greedy actions, and to the network's output."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    output = session.get_outputs()[0].name  # logits, q_values or actions

    def run(batch: Any) -> np.ndarray:
        return session.run([output], {"obs": batch} if parts is None else batch)[0]

    return run if output == "actions" else lambda batch: run(batch).argmax(axis=1), run


def exported(args: argparse.Namespace) -> None:
    """Prints the table of shipped models beside onnxruntime."""
    args.onnx.mkdir(parents=True, exist_ok=True)
    calls: Calls = {}
    for name in MODELS:
        file = PRETRAINED / f"{name}.safetensors"
        onnx = args.onnx / f"{name.replace('/', '-')}.onnx"
        if not onnx.exists():
            subprocess.run([args.trainer, "export", "--model", file, "--onnx", onnx], check=True, capture_output=True)
        policy = kubernasium.Policy(file)
        space = policy.observation_space
        parts = list(space.spaces) if hasattr(space, "spaces") else None
        rng = np.random.default_rng(0)

        def draw(shape: tuple[int, ...], rng: np.random.Generator = rng) -> np.ndarray:
            return rng.random((BATCH, *shape), np.float32)

        batch = draw(space.shape) if parts is None else {key: draw(space[key].shape) for key in parts}
        row = batch[0] if parts is None else {key: value[0] for key, value in batch.items()}
        rows = batch[:1] if parts is None else {key: value[:1] for key, value in batch.items()}
        theirs, run = onnx_policy(onnx, parts)
        values, actions = run(batch), policy(batch)
        if values.shape == actions.shape:
            np.testing.assert_allclose(actions, values, rtol=1e-5, atol=1e-5)
        else:  # the scores of both choices are equal but for rounding
            chosen = np.take_along_axis(values, actions[:, None], axis=1)[:, 0]
            np.testing.assert_allclose(chosen, values.max(axis=1), rtol=1e-5, atol=1e-5)
        calls[f"{name} ours"] = (lambda policy=policy, row=row: policy(row)), 300
        calls[f"{name} theirs"] = (lambda theirs=theirs, rows=rows: theirs(rows)), 300
        calls[f"{name} ours, batch"] = (lambda policy=policy, batch=batch: policy(batch)), 20
        calls[f"{name} theirs, batch"] = (lambda theirs=theirs, batch=batch: theirs(batch)), 20
    micros = measure(calls, args.rounds)
    median = {name: statistics.median(values) for name, values in micros.items()}
    print(f"| µs, median | `Policy` | onnxruntime | `Policy`, {BATCH} rows | onnxruntime, {BATCH} rows |")
    print("|---|--:|--:|--:|--:|")
    for name in MODELS:
        cells = [f"{median[f'{name} {call}']:.1f}" for call in ("ours", "theirs", "ours, batch", "theirs, batch")]
        print(f"| `{name}` | {' | '.join(cells)} |")


def pytorch(args: argparse.Namespace) -> None:
    """Prints the table of CartPole's model beside PyTorch and Stable-Baselines3."""
    import torch

    from kubernasium.load_sb3 import load

    torch.set_num_threads(1)
    file = str(PRETRAINED / f"{CARTPOLE}.safetensors")
    policy, theirs = kubernasium.Policy(file), load(file)
    obs, batch, mask = np.array([0, 0, 0.1, 0.5], np.float32), np.zeros((256, 4), np.float32), np.ones(2, np.int8)
    row = torch.from_numpy(obs[None])

    def by_torch() -> int:
        with torch.no_grad():
            latent = theirs.policy.mlp_extractor.policy_net(row)
            return int(theirs.policy.action_net(latent).argmax())

    calls: Calls = {
        "`policy(obs)`": (lambda: policy(obs), 2000),
        "`policy(obs, mask)`": (lambda: policy(obs, mask), 2000),
        "`policy.predict(obs)`": (lambda: policy.predict(obs, deterministic=True), 300),
        "`policy(batch)`, 256 rows": (lambda: policy(batch), 100),
        "PyTorch, the network alone": (by_torch, 300),
        "Stable-Baselines3, `predict(obs)`": (lambda: theirs.predict(obs, deterministic=True), 50),
        "Stable-Baselines3, `predict(batch)`, 256 rows": (lambda: theirs.predict(batch, deterministic=True), 50),
    }
    print("| call | µs, median | least … most |\n|---|--:|--:|")
    for name, values in measure(calls, args.rounds).items():
        print(f"| {name} | {statistics.median(values):.1f} | {min(values):.1f} … {max(values):.1f} |")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", default=str(REPOSITORY / "bin/trainer"), help="exports the models")
    parser.add_argument("--onnx", type=Path, default=REPOSITORY / ".cache/onnx", help="folder for the exported models")
    parser.add_argument("--rounds", type=int, default=21)
    args = parser.parse_args()
    if importlib.util.find_spec("onnxruntime"):
        exported(args)
        print()
    if importlib.util.find_spec("torch"):
        pytorch(args)


if __name__ == "__main__":
    main()
