"""Recorded episodes as a file for the native trainer. A Go test checks that it trains with the file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from safetensors.numpy import load_file

from kubernasium.save_transitions import TransitionsError, save, space_keys


def episode(start: float, steps: int, **changes: object) -> SimpleNamespace:
    """Returns an episode with the attributes of Minari's EpisodeData."""
    last = np.arange(steps) == steps - 1
    parts = {
        "observations": start + np.arange(2.0 * (steps + 1)).reshape(-1, 2),
        "actions": np.arange(steps) % 2,
        "rewards": np.ones(steps),
        "terminations": last,
        "truncations": np.zeros(steps, bool),
        "infos": {},
    }
    return SimpleNamespace(**(parts | changes))


def test_rows(tmp_path: Path) -> None:
    """By hand: the last observation of an episode is only a next one."""
    path = tmp_path / "t.safetensors"
    assert save(path, [episode(0, 2), episode(10, 1)], env="test/Toy-v0") == 3
    tensors = load_file(path)
    assert tensors["observations"].tolist() == [[0, 1], [2, 3], [10, 11]]
    assert tensors["next_observations"].tolist() == [[2, 3], [4, 5], [12, 13]]
    assert tensors["actions"].tolist() == [0, 1, 0]
    assert tensors["terminations"].tolist() == [0, 1, 1]
    assert tensors["truncations"].tolist() == [0, 0, 0]
    assert {name: str(t.dtype) for name, t in tensors.items()} == {
        "observations": "float32",
        "next_observations": "float32",
        "actions": "float32",
        "rewards": "float64",
        "terminations": "uint8",
        "truncations": "uint8",
    }


def test_dicts_and_masks(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    observations = {"z": np.arange(4.0).reshape(2, 1, 2), "a": np.array([[7.0], [8.0]])}
    mask = np.array([[1, 0], [0, 1]])
    save(path, [episode(0, 1, observations=observations, infos={"action_mask": mask})])
    tensors = load_file(path)
    assert tensors["observations"].tolist() == [[0, 1, 7]]
    assert tensors["next_observations"].tolist() == [[2, 3, 8]]
    assert tensors["action_masks"].tolist() == [[1, 0]]
    assert tensors["next_action_masks"].tolist() == [[0, 1]]


def test_refuses(tmp_path: Path) -> None:
    for episodes, message in (
        ([], "no episodes"),
        ([episode(0, 2, actions=np.ones(2))], "type float64, want a whole number for each of its steps"),
        ([episode(0, 2, actions=np.ones((2, 2), int))], r"shape \(2, 2\) and type int64, want .* of a Discrete space"),
        ([episode(0, 2, observations=np.ones((2, 2)))], "2 observations for 2 actions"),
        ([episode(0, 2), episode(0, 2, infos={"action_mask": np.ones((3, 2))})], "differ in having action masks"),
    ):
        with pytest.raises(TransitionsError, match=message):
            save(tmp_path / "t.safetensors", episodes)


def test_the_file_is_like_others(tmp_path: Path) -> None:
    """Others may read it, such as a pod of another user, and a missing folder is an error of the system."""
    path = tmp_path / "t.safetensors"
    save(path, [episode(0, 2)])
    like = tmp_path / "like"
    like.touch()
    assert path.stat().st_mode == like.stat().st_mode
    with pytest.raises(FileNotFoundError, match="none"):
        save(tmp_path / "none" / "t.safetensors", [episode(0, 2)])


def test_parts_in_the_order_of_the_space(tmp_path: Path) -> None:
    """Minari's HDF5 files sort the parts by name; the space of LRAPlacement, and so the trainer, has nodes first."""
    env_id = "k8s/LRAPlacement-v0"
    with gymnasium.make(env_id) as env:
        obs, _ = env.reset(seed=0)
        flat = gymnasium.spaces.flatten(env.observation_space, obs)
        sorted_space = gymnasium.spaces.Dict(dict(env.observation_space.items()))
    assert list(sorted_space) == ["batch", "nodes"]
    dataset = SimpleNamespace(
        observation_space=sorted_space,
        spec=SimpleNamespace(env_spec=gymnasium.spec(env_id)),
        recover_environment=lambda: gymnasium.make(env_id),
    )
    recorded = episode(0, 1, observations={key: np.stack([obs[key]] * 2) for key in sorted_space})
    save(tmp_path / "t.safetensors", [recorded], keys=space_keys(dataset))
    np.testing.assert_array_equal(load_file(tmp_path / "t.safetensors")["observations"][0], flat)
    with pytest.raises(TransitionsError, match=r"parts \['batch', 'nodes'\], want \['nodes'\]"):
        save(tmp_path / "t.safetensors", [recorded], keys=["nodes"])
    dataset.spec.env_spec = None
    with pytest.raises(TransitionsError, match="names no environment"):
        space_keys(dataset)
