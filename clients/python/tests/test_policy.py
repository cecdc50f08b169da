"""Baselines of the server, asked and followed."""

from __future__ import annotations

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
                told = asked.policy(name)
                np.testing.assert_array_equal(asked.policy(name), told)
            actions = rng.integers(0, 4, 4)
            for one, other in zip(asked.step(actions)[:4], plain.step(actions)[:4], strict=True):
                np.testing.assert_array_equal(one, other)


def totals(plain: bool) -> np.ndarray:
    """Plays episodes of GangWindow by static_9, or by its bare actions."""
    with gymnasium.make_vec(GANG, 4, steps=40) as envs:
        envs.reset(seed=3)
        while True:
            actions = envs.policy("static_9")
            _, _, _, truncated, infos = envs.step(actions.copy() if plain else actions)
            if truncated.all():
                return infos["total_s"]


def test_plans_beside_the_actions_are_carried_out() -> None:
    """static_9 plans nine supersteps ahead, of which actions can name three at most: those never plan."""
    assert (totals(plain=False) < 0.8 * totals(plain=True)).all()


@pytest.mark.parametrize("env_id", [CARTPOLE, GANG, GPU, VPA])
def test_one_environment_follows_as_many_do(env_id: str) -> None:
    with gymnasium.make(env_id) as env, gymnasium.make_vec(env_id, 1, autoreset_mode="Disabled") as envs:
        one = env.unwrapped
        names = [b["name"] for b in one.vector.spec["baselines"] if not b["oracle"]][-3:]
        for name in ["random", *names]:
            one.reset(seed=5)
            envs.reset(seed=5)
            for _ in range(20):
                action, actions = one.policy(name, seed=1), envs.policy(name, seed=1)
                assert one.action_space.contains(action)
                _, reward, terminated, truncated, _ = one.step(action)
                assert reward == envs.step(actions)[1][0]
                if terminated or truncated:
                    break


def test_actions_that_were_told_before_are_only_actions() -> None:
    with gymnasium.make_vec(GANG, 2, steps=20) as envs, gymnasium.make(GANG, steps=20) as env:
        envs.reset(seed=0)
        one = env.unwrapped
        one.reset(seed=0)
        actions, action = envs.policy("static_9"), one.policy("static_9")
        for _ in range(2):  # the second time as any other
            envs.step(actions)
            one.step(action)
        actions, action = envs.policy("static_9"), one.policy("static_9")
        envs.reset(seed=0)
        one.reset(seed=0)
        envs.step(actions)
        one.step(action)


def test_refusals(connection: Connection) -> None:
    vector = Vector(connection, CARTPOLE, 2)
    with pytest.raises(errors.ResetNeededError):
        vector.policy("lean")
    vector.reset(seed=0)
    with pytest.raises(errors.UnknownBaselineError, match="pole-angle"):
        vector.policy("best")
    with pytest.raises(errors.BaselineError):
        vector.step(np.zeros(2, np.int64), policy="lean")
    assert vector.stats()["steps"] == 0
    vector.step(vector.policy("lean"), policy="lean")
    vector.step_async(np.zeros(2, np.int64))
    with pytest.raises(errors.PendingStepError):
        vector.policy("lean")
    vector.step_wait()


def test_old_servers_are_told_apart(connection: Connection) -> None:
    vector = Vector(connection, CARTPOLE, 2)
    assert connection.version == (1, 1)
    connection.caps = frozenset()  # as a server of version 1.0 says
    with pytest.raises(errors.UnimplementedError, match="newer"):
        vector.policy("lean")
