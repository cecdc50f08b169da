"""Vectors in parts against whole ones."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from kubernasium.double_buffer import DoubleBuffer

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"


def chosen(obs: np.ndarray) -> np.ndarray:
    """A policy that looks at each row alone."""
    return (obs.sum(axis=1) * 1000 % 2).astype(np.int64)


@pytest.mark.parametrize(("env_id", "n", "parts"), [(CARTPOLE, 8, 2), (CARTPOLE, 7, 2), (GANG, 5, 3), (GANG, 2, 1)])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_equals_one_vector(env_id: str, n: int, parts: int, mode: str) -> None:
    """The rows of a plain loop over one vector, bit for bit, over two calls of `collect`."""
    options = {"steps": 9} if env_id == GANG else {}
    whole = gymnasium.make_vec(env_id, n, autoreset_mode=mode, **options)
    obs = whole.reset(seed=4)[0]
    want: dict[str, list[Any]] = {}
    for _ in range(40):
        actions = chosen(obs)
        step = whole.step(actions)
        for key, value in zip(
            ("obs", "actions", "rewards", "terminations", "truncations"), (obs, actions, *step[1:4]), strict=True
        ):
            want.setdefault(key, []).append(value)
        obs = step[0]
    with DoubleBuffer(env_id, n, parts=parts, autoreset_mode=mode, **options) as envs:
        assert [part.num_envs for part in envs.parts] == [n * (i + 1) // parts - n * i // parts for i in range(parts)]
        envs.async_reset(seed=4)
        one, two = (envs.collect(lambda obs, infos: chosen(obs), steps) for steps in (25, 15))
        for key, values in want.items():
            np.testing.assert_array_equal(np.concatenate([one[key], two[key]]), np.stack(values), strict=True)
        np.testing.assert_array_equal(two["last_obs"], obs, strict=True)
        np.testing.assert_array_equal(one["last_obs"], two["obs"][0], strict=True)
    whole.close()


def test_the_other_part_steps_meanwhile() -> None:
    """While the policy computes for one part, the other's request is on its way, and its rows are the other half."""
    with DoubleBuffer(CARTPOLE, 6) as envs:
        envs.async_reset(seed=[10, 11, 12, 20, 21, 22])
        with gymnasium.make_vec(CARTPOLE, 3) as half:
            np.testing.assert_array_equal(half.reset(seed=[20, 21, 22])[0], envs._first[1][0])
        seen = []
        for i in range(8):
            infos = envs.recv()[4]
            seen.append(infos["env_id"].tolist())
            if i:
                other = envs.parts[(i + 1) % 2]
                assert bool(other.vector._pending) == (i > 0)
            envs.send(np.zeros(3, np.int64))
        assert seen == [[0, 1, 2], [3, 4, 5]] * 4
        envs.async_reset(seed=1)  # drops the steps that run
        assert envs.recv()[1].tolist() == [0, 0, 0]


def test_mistakes() -> None:
    with DoubleBuffer(CARTPOLE, 4) as envs:
        with pytest.raises(gymnasium.error.NoAsyncCallError, match="async_reset"):
            envs.recv()
        for seeds in (range(3), range(5)):
            with pytest.raises(ValueError, match=f"{len(seeds)} seeds for 4 environments"):
                envs.async_reset(seed=seeds)
        envs.async_reset(seed=1)
        with pytest.raises(gymnasium.error.NoAsyncCallError, match="send before recv"):
            envs.send(np.zeros(2, np.int64))
        envs.recv()
        with pytest.raises(gymnasium.error.AlreadyPendingCallError):
            envs.recv()
        with pytest.raises(gymnasium.error.InvalidAction):
            envs.send(np.zeros(3, np.int64))
        envs.send(np.zeros(2, np.int64))
    for parts in (0, 3):
        with pytest.raises(ValueError, match="parts"):
            DoubleBuffer(CARTPOLE, 2, parts=parts)


def test_dict_observations() -> None:
    """`collect` stacks the parts of a Dict space."""
    with DoubleBuffer("k8s/GPUPodScheduling-v1", 4) as envs:
        if not isinstance(envs.single_observation_space, gymnasium.spaces.Dict):
            pytest.fail("this environment was to have a Dict space")
        envs.async_reset(seed=3)
        got = envs.collect(lambda obs, infos: infos["action_mask"].argmax(axis=1), 3)
        for key, space in envs.single_observation_space.spaces.items():
            assert got["obs"][key].shape == (3, 4, *space.shape)
