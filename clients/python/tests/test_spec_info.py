"""What an environment says of itself, names of its observations' elements above all."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Dict, flatdim, flatten

from kubernasium.registration import catalog

SIMULATED = [spec["id"] for spec in catalog() if "Kwok" not in spec["id"]]  # a twin wants a control plane


@pytest.mark.parametrize("env_id", SIMULATED)
def test_every_element_has_a_name(env_id: str) -> None:
    with gymnasium.make(env_id) as env:
        info = env.unwrapped.spec_info
        space = env.observation_space
        parts = space.spaces if isinstance(space, Dict) else {"": space}
        names = info.feature_names if isinstance(space, Dict) else {"": info.feature_names}
        assert list(names) == list(parts)
        for key, part in parts.items():
            assert names[key].shape == part.shape
            assert len(np.unique(names[key])) == names[key].size
        assert len(info.flat_feature_names) == flatdim(space)
        assert info.id == env_id


def test_names_stand_beside_their_values() -> None:
    """CartPole's values in Gymnasium's order, and a Dict's in that of flatten."""
    with gymnasium.make("classic/CartPole-v1") as env, gymnasium.make("CartPole-v1") as theirs:
        assert env.unwrapped.spec_info.feature_names.tolist() == [
            "cart_position", "cart_velocity", "pole_angle", "pole_angular_velocity",
        ]  # fmt: skip
        np.testing.assert_array_equal(env.reset(seed=3)[0], theirs.reset(seed=3)[0])
    with gymnasium.make("k8s/PodBalance-v0", nodes=4) as env:
        obs, _ = env.reset(seed=0)
        named = dict(zip(env.unwrapped.spec_info.flat_feature_names, flatten(env.observation_space, obs), strict=True))
        for node in range(4):  # 1 CPU and 2 Gi of an empty node of 64 CPU and 256 Gi
            assert named[f"nodes/node_{node}.requested_cpu"] == 0
            assert named[f"nodes/node_{node}.pod_cpu"] == 1 / 64
            assert named[f"nodes/node_{node}.pod_memory"] == 2 / 256
        assert named["pod/cpu"] == 1 / 64


def test_names_follow_options_and_vectors() -> None:
    with gymnasium.make_vec("k8s/GangWindow-v0", 2, windows=5, horizon=2) as envs:
        names = envs.unwrapped.spec_info.feature_names
        assert names.shape == envs.single_observation_space.shape
        assert names[12] == "size_task_0"
        assert names[-1] == "steps_since_plan"


def test_the_rest_of_the_spec() -> None:
    with gymnasium.make("k8s/GangWindow-v0") as env:
        info = env.unwrapped.spec_info
        assert {"name", "type", "default", "doc"} <= info.options[0].keys()
        assert "static_3" in [baseline["name"] for baseline in info.baselines]
        assert info.held_out == {"split": "heldout"}
        assert {metric["column"] for metric in info.metrics} <= {column["name"] for column in info.info}
