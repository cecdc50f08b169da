"""A real Minari dataset becomes what the native trainer's DQN starts with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium
import minari
import numpy as np
import pytest
from safetensors.numpy import load_file

CARTPOLE = "classic/CartPole-v1"


def collect(episodes: int) -> dict[str, np.ndarray]:
    """Makes the dataset cartpole/rule-v0 and returns what was seen while it was recorded."""
    seen: dict[str, list] = {name: [] for name in ("observations", "next_observations", "actions", "rewards", "ends")}
    env = minari.DataCollector(gymnasium.make(CARTPOLE, max_episode_steps=60))
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            # Pushing to the side that the pole falls to keeps it up for longer than the limit; not always.
            action = int(obs[2] + obs[3] > 0) if seed else 0
            following, reward, terminated, truncated, _ = env.step(action)
            ended = terminated or truncated
            row = (obs, following, action, reward, (terminated, truncated))
            for rows, value in zip(seen.values(), row, strict=True):
                rows.append(value)
            obs = following
    env.create_dataset("cartpole/rule-v0", algorithm_name="rule")
    env.close()
    return {name: np.array(rows) for name, rows in seen.items()}


def test_dqn_starts_from_a_minari_dataset(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    seen = collect(3)
    count = len(seen["actions"])
    file = tmp_path / "recorded.safetensors"
    command = [sys.executable, "-m", "kubernasium.save_transitions", "cartpole/rule-v0", str(file), "--env", CARTPOLE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == f"{file}: {count} transitions\n", done.stderr
    tensors = load_file(file)
    for name in ("observations", "next_observations", "actions", "rewards"):
        np.testing.assert_array_equal(tensors[name], seen[name])
    np.testing.assert_array_equal(tensors["terminations"], seen["ends"][:, 0])
    np.testing.assert_array_equal(tensors["truncations"], seen["ends"][:, 1])
    assert tensors["terminations"].sum() == 1
    assert tensors["truncations"].sum() == 2

    trainer = tmp_path / "trainer"
    subprocess.run(["go", "build", "-o", str(trainer), "./trainer"], cwd=root.parent.parent, timeout=900, check=True)
    sizes = ["n_envs:1", "learning_starts:1", "batch_size:16", "buffer_size:1000"]
    more = [word for size in sizes for word in ("--params", size)]
    train = [trainer, "train", "--algo", "dqn", "--env", CARTPOLE, "--transitions", file, "-n", "50", *more]
    train += ["--eval-freq", "0", "--eval-episodes", "1", "--log-folder", tmp_path / "logs"]
    done = subprocess.run(train, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert f"the replay buffer starts with {count} of {count} recorded transitions" in done.stdout + done.stderr
