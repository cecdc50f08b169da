"""Rollouts at the server, against the same steps one at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from kubernasium import errors
from kubernasium.protocol import Connection, Vector

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"
GPU = "k8s/GPUPodScheduling-v0"


def equal(got: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert got.keys() == want.keys()
        for key in want:
            equal(got[key], want[key])
    else:
        np.testing.assert_array_equal(got, want, strict=True)


def pick(obs: Any, i: int) -> Any:
    return {key: part[i] for key, part in obs.items()} if isinstance(obs, dict) else obs[i]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize(
    ("env_id", "name", "options"),
    [
        (CARTPOLE, "random", {}),
        (GANG, "static_5", {"steps": 12, "noise": 1.0}),
        (GPU, "FGD", {"max_episode_steps": 15}),
    ],
)
def test_equals_its_steps(env_id: str, name: str, options: dict[str, Any], mode: str) -> None:
    n, steps = 3, 40
    make = {"num_envs": n, "autoreset_mode": mode, **options}
    with gymnasium.make_vec(env_id, **make) as rolled, gymnasium.make_vec(env_id, **make) as stepped:
        rolled.reset(seed=4)
        obs, infos = stepped.reset(seed=4)
        got = rolled.rollout(name, steps=steps, transitions=True, seed=1)
        assert (got.steps, got.cut) == (steps, False)
        rows, ends, finals, last_infos = [], [], [], []
        returns, lengths = np.zeros(n), np.zeros(n, np.int64)
        ended_returns, ended_lengths, resets = [], [], np.zeros(n, bool)
        for t in range(steps):
            actions = stepped.policy(name, seed=1 if t == 0 else None)
            moment = got.transitions
            equal({k: v[t] for k, v in moment["obs"].items()} if isinstance(obs, dict) else moment["obs"][t], obs)
            np.testing.assert_array_equal(moment["action_mask"][t], infos["action_mask"])
            np.testing.assert_array_equal(moment["actions"][t], actions)
            np.testing.assert_array_equal(moment["resets"][t], resets)
            obs, rewards, terminations, truncations, infos = stepped.step(policy=name)
            np.testing.assert_array_equal(moment["rewards"][t], rewards)
            np.testing.assert_array_equal(moment["terminations"][t], terminations)
            np.testing.assert_array_equal(moment["truncations"][t], truncations)
            returns[resets], lengths[resets] = 0, -1
            returns += rewards
            lengths += 1
            for i in np.flatnonzero(terminations | truncations):
                same = mode == "SameStep"
                rows.append(i)
                ends.append(t + 1)
                finals.append(infos["final_obs"][i] if same else pick(obs, i))
                of_end = infos["final_info"] if same else infos
                last_infos.append({k: of_end[k][i] for k in got.infos})
                ended_returns.append(returns[i])
                ended_lengths.append(lengths[i])
                if same:
                    returns[i], lengths[i] = 0, 0
            resets = (terminations | truncations) & (mode == "NextStep")
        assert rows
        np.testing.assert_array_equal(got.rows, rows)
        np.testing.assert_array_equal(got.ends, ends)
        np.testing.assert_array_equal(got.returns, ended_returns)
        np.testing.assert_array_equal(got.lengths, ended_lengths)
        for e, final in enumerate(finals):
            equal(pick(got.transitions["final_obs"], e), final)
            assert {k: v[e] for k, v in got.infos.items()} == last_infos[e]
        equal(got.last[0], obs)
        np.testing.assert_array_equal(got.last[1], rewards)
        assert got.last[4].keys() == infos.keys()
        np.testing.assert_array_equal(rolled.action_masks(), stepped.action_masks())


def test_episodes() -> None:
    with gymnasium.make_vec(CARTPOLE, 8) as envs:
        envs.reset(seed=0)
        got = envs.rollout("pole-angle", episodes=3)
        assert not got.cut
        assert np.bincount(got.rows, minlength=8).min() == 3
        np.testing.assert_array_equal(got.returns, got.lengths)  # each step pays 1
        assert got.transitions is None
        assert got.ends[-1] == got.steps


def test_disabled_stops_at_an_end() -> None:
    with gymnasium.make_vec(CARTPOLE, 4, autoreset_mode="Disabled") as envs:
        envs.reset(seed=0)
        got = envs.rollout("lean", steps=400)
        assert got.cut
        assert (got.ends == got.steps).all()
        with pytest.raises(errors.ResetNeededError):
            envs.rollout("lean", steps=1)
        envs.reset(options={"reset_mask": got.last[2]})
        assert envs.rollout("lean", steps=1).steps == 1


def test_refusals(connection: Connection) -> None:
    vector = Vector(connection, CARTPOLE, 2)
    with pytest.raises(errors.ResetNeededError):
        vector.rollout("lean", steps=1)
    vector.reset(seed=0)
    with pytest.raises(errors.UnknownBaselineError):
        vector.rollout("best", steps=1)
    for bad in ({}, {"steps": 1, "episodes": 1}, {"steps": 0}, {"steps": -1}):
        with pytest.raises(errors.InvalidArgumentError):
            vector.rollout("lean", **bad)
    most = connection.limits["rollout"] // 2
    with pytest.raises(errors.BusyError, match=str(most)):
        vector.rollout("lean", steps=most + 1)
    assert vector.stats()["steps"] == 0
    connection.caps = frozenset({"baseline"})
    with pytest.raises(errors.UnimplementedError):
        vector.rollout("lean", steps=1)
