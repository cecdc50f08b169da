"""Baselines of the server, which are asked for actions and which step."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest

from kubernasium import errors
from kubernasium.protocol import Connection, Vector

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"
GPU = "k8s/GPUPodScheduling-v0"
VPA = "k8s/VerticalPodAutoscaler-v0"


def lean(obs: np.ndarray) -> np.ndarray:
    """Pushes to the side that the pole leans to: the third number of the observation is its angle."""
    return (obs[:, 2] > 0).astype(np.int64)


def test_rule_of_cartpole() -> None:
    with gymnasium.make_vec(CARTPOLE, 16) as envs:
        obs, _ = envs.reset(seed=0)
        ended = np.zeros(16, bool)
        for _ in range(100):
            actions = envs.policy("lean")
            np.testing.assert_array_equal(actions, np.where(ended, 0, lean(obs)))
            assert envs.action_space.contains(actions)
            obs, _, terminated, truncated, _ = envs.step(actions)
            ended = terminated | truncated


def test_asking_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    with gymnasium.make_vec(GANG, 4, steps=10) as asked, gymnasium.make_vec(GANG, 4, steps=10) as plain:
        asked.reset(seed=1)
        plain.reset(seed=1)
        for _ in range(30):
            for name in ("dynamic_mpc", "random", "static_2"):
                np.testing.assert_array_equal(asked.policy(name), asked.policy(name))
            actions = rng.integers(0, 4, 4)
            for one, other in zip(asked.step(actions)[:4], plain.step(actions)[:4], strict=True):
                np.testing.assert_array_equal(one, other)


def totals(name: str, *, by_actions: bool = False) -> np.ndarray:
    """Plays episodes of GangWindow by a baseline, or by nothing but its actions."""
    with gymnasium.make_vec(GANG, 4, steps=40) as envs:
        envs.reset(seed=3)
        while True:
            step = envs.step(envs.policy(name)) if by_actions else envs.step(policy=name)
            if step[3].all():
                return step[4]["total_s"]


def test_a_baseline_steps_beyond_its_actions() -> None:
    """static_9 plans nine supersteps ahead, of which actions can name three at most: those never plan."""
    assert (totals("static_9") < 0.8 * totals("static_9", by_actions=True)).all()


@pytest.mark.parametrize("env_id", [CARTPOLE, GANG, GPU, VPA])
def test_one_environment_steps_as_many_do(env_id: str) -> None:
    with gymnasium.make(env_id) as env, gymnasium.make_vec(env_id, 1, autoreset_mode="Disabled") as envs:
        one = env.unwrapped
        names = [b["name"] for b in one.vector.spec["baselines"] if not b["oracle"]][-3:]
        for name in ["random", *names]:
            one.reset(seed=5)
            envs.reset(seed=5)
            for step in range(20):
                if step % 2:
                    action = one.policy(name)
                    assert one.action_space.contains(action)
                    np.testing.assert_array_equal(action, envs.policy(name)[0])
                seed = 1 if name == "random" and step == 0 else None
                _, reward, terminated, truncated, _ = one.step(policy=name, seed=seed)
                assert reward == envs.step(policy=name, seed=seed)[1][0]
                if terminated or truncated:
                    break


@pytest.mark.parametrize("env_id", [CARTPOLE, GANG, GPU, VPA])
def test_a_copied_action_means_the_same(env_id: str) -> None:
    """The action that policy returns, a copy of it, and one like it from elsewhere step alike."""
    options = {"steps": 20} if env_id == GANG else {}
    with gymnasium.make_vec(env_id, 2, **options) as told, gymnasium.make_vec(env_id, 2, **options) as copied:
        for name in [b["name"] for b in told.vector.spec["baselines"] if not b["oracle"]][-3:]:
            told.reset(seed=7)
            copied.reset(seed=7)
            with gymnasium.make(env_id, **options) as env, gymnasium.make(env_id, **options) as other:
                one, two = env.unwrapped, other.unwrapped
                one.reset(seed=7)
                two.reset(seed=7)
                for _ in range(12):
                    actions = told.policy(name)
                    copied.policy(name)
                    assert_same(told.step(actions), copied.step(np.array(actions.tolist(), actions.dtype)))
                    action = one.policy(name)
                    two.policy(name)
                    last = one.step(action)
                    assert_same(last, two.step(copy.deepcopy(action)))
                    if last[2] or last[3]:
                        break


def assert_same(one: tuple[Any, ...], two: tuple[Any, ...]) -> None:
    for a, b in zip(one[:4], two[:4], strict=True):
        if isinstance(a, dict):
            assert a.keys() == b.keys()
            a, b = list(a.values()), list(b.values())
            for x, y in zip(a, b, strict=True):
                np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_array_equal(a, b)


def test_vectors_of_sb3_step_by_a_baseline() -> None:
    from kubernasium import sb3

    with sb3.VecEnv(GANG, 2, seed=3, steps=20) as envs, gymnasium.make_vec(GANG, 2, steps=20) as same:
        envs.reset()
        same.reset(seed=3)
        for _ in range(10):
            np.testing.assert_array_equal(envs.policy("static_9"), same.policy("static_9"))
            rewards = same.step(policy="static_9")[1]
            np.testing.assert_array_equal(envs.step(policy="static_9")[1], rewards.astype(np.float32))


def test_refusals(connection: Connection) -> None:
    vector = Vector(connection, CARTPOLE, 2)
    with pytest.raises(errors.ResetNeededError):
        vector.policy("lean")
    vector.reset(seed=0)
    with pytest.raises(errors.UnknownBaselineError, match="pole-angle"):
        vector.policy("best")
    with pytest.raises(errors.UnknownBaselineError, match="pole-angle"):
        vector.step(policy="best")
    for bad in ({"actions": np.zeros(2, np.int64), "policy": "lean"}, {"actions": np.zeros(2, np.int64), "seed": 1}):
        with pytest.raises(TypeError, match="policy"):
            vector.step(**bad)
    with pytest.raises(errors.InvalidArgumentError):
        vector.step(policy="random", seed=-1)
    assert vector.stats()["steps"] == 0
    vector.step(policy="lean")
    vector.step_async(np.zeros(2, np.int64))
    with pytest.raises(errors.PendingStepError):
        vector.policy("lean")
    vector.step_wait()


@pytest.mark.parametrize("caps", [(), ("policy", "rollout", "snapshot")], ids=["1.0", "1.1"])
def test_old_servers_are_recognized(connection: Connection, caps: tuple[str, ...]) -> None:
    vector = Vector(connection, CARTPOLE, 2)
    vector.reset(seed=0)
    assert connection.version == (1, 8)
    connection.caps = frozenset(caps)  # as a server of that version says
    for call in (vector.policy, lambda name: vector.step(policy=name)):
        with pytest.raises(errors.UnimplementedError, match=r"no baseline; want 1\.2"):
            call("lean")
    vector.step(np.zeros(2, np.int64))
