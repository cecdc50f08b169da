"""Real Minari datasets: what the native trainer starts with, learns from and records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import minari
import numpy as np
import pytest
from safetensors.numpy import load_file

CARTPOLE = "classic/CartPole-v1"


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The native trainer."""
    path = tmp_path_factory.mktemp("bin") / "trainer"
    root = Path(__file__).resolve().parents[3]
    subprocess.run(["go", "build", "-o", str(path), "./trainer"], cwd=root, timeout=900, check=True)
    return path


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


def test_dqn_starts_from_a_minari_dataset(trainer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    seen = collect(3)
    count = len(seen["actions"])
    file = tmp_path / "recorded.safetensors"
    command = [sys.executable, "-m", "kubernasium.save_transitions", "cartpole/rule-v0", str(file), "--env", CARTPOLE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == f"{file}: {count} transitions\n", done.stderr
    tensors = load_file(file)
    for name in ("observations", "next_observations", "actions", "rewards"):
        np.testing.assert_array_equal(tensors[name], seen[name])
    np.testing.assert_array_equal(tensors["terminations"], seen["ends"][:, 0])
    np.testing.assert_array_equal(tensors["truncations"], seen["ends"][:, 1])
    assert tensors["terminations"].sum() == 1
    assert tensors["truncations"].sum() == 2

    sizes = ["n_envs:1", "learning_starts:1", "batch_size:16", "buffer_size:1000"]
    more = [word for size in sizes for word in ("--params", size)]
    train = [trainer, "train", "--algo", "dqn", "--env", CARTPOLE, "--transitions", file, "-n", "50", *more]
    train += ["--eval-freq", "0", "--eval-episodes", "1", "--log-folder", tmp_path / "logs"]
    done = subprocess.run(train, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert f"the replay buffer starts with {count} of {count} recorded transitions" in done.stdout + done.stderr


def test_minari_reads_what_the_trainer_records(trainer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same recording as a file of transitions says what the dataset must hold."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    file = tmp_path / "t.safetensors"
    record = [trainer, "record", "--env", "k8s/GPUPodScheduling-v1", "--policy", "random", "-n", "300"]
    subprocess.run([*record, "--dataset", "k8s/pods-v0", "--out", file], timeout=300, check=True)
    assert list(minari.list_local_datasets()) == ["k8s/pods-v0"]
    dataset, want = minari.load_dataset("k8s/pods-v0"), load_file(file)
    assert dataset.total_steps == 300
    assert dataset.spec.env_spec is not None
    assert dataset.spec.env_spec.id == "k8s/GPUPodScheduling-v1"
    steps: dict[str, list] = {
        name: [] for name in ("observations", "next_observations", "actions", "rewards", "action_masks")
    }
    for episode in dataset:
        flat = np.concatenate([part.reshape(len(part), -1) for part in episode.observations.values()], axis=1)
        rows = (flat[:-1], flat[1:], episode.actions, episode.rewards, episode.infos["action_mask"][:-1])
        for values, row in zip(steps.values(), rows, strict=True):
            values.extend(row)
    for name, values in steps.items():
        np.testing.assert_array_equal(np.array(values), want[name], err_msg=name)
    environment = dataset.recover_environment()
    assert environment.action_space == dataset.action_space
    assert environment.observation_space == dataset.observation_space
    environment.close()


def test_trainer_clones_what_minari_records(trainer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that is recorded at a server is cloned well enough to keep the pole up as long."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    env = minari.DataCollector(gymnasium.make(CARTPOLE), record_infos=True, data_format="arrow")
    for seed in range(5):
        obs, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            obs, _, terminated, truncated, _ = env.step(int(obs[2] + obs[3] > 0))
            ended = terminated or truncated
    dataset = env.create_dataset("cartpole/rule-v0", algorithm_name="rule")
    env.close()
    assert dataset.total_steps > 500
    train = [
        trainer,
        "train",
        "--algo",
        "bc",
        "--dataset",
        "cartpole/rule-v0",
        "-n",
        "1000",
        "--eval-freq",
        "0",
        "--json",
    ]
    done = subprocess.run(train, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["eval_mean"] > 0.8 * np.mean([episode.rewards.sum() for episode in dataset])
