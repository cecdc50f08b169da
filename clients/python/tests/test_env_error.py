"""Failures of single environments, and observations in part: the arguments `env_error` and `obs_keys`.

Expectations are worked by hand: an observation of test/Trouble-v0 is the number of steps of the episode, a step has
reward 1, and one that fails has reward 0, is truncated, and has the observation before it (6.19 of the protocol).
"""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from kubernasium import aio, errors
from kubernasium.env import Env
from kubernasium.launcher import Server
from kubernasium.sb3 import VecEnv
from kubernasium.vector import VectorEnv

TROUBLE = "test/Trouble-v0"
BALANCE = "k8s/PodBalance-v0"
PLAIN, FAIL, _, _, SPOIL = range(5)  # actions of test/Trouble-v0
CAUSE = "the environment failed: panic: a crash on demand"


def test_a_failure_without_isolation(trouble_url: str) -> None:
    """One row's failure refuses the request for all."""
    with VectorEnv(TROUBLE, 2, url=trouble_url) as envs:
        envs.reset(seed=1)
        with pytest.raises(errors.ServerFaultError, match="environment 1: panic: a crash on demand"):
            envs.step([PLAIN, FAIL])
        with pytest.raises(errors.ResetNeededError):
            envs.step([PLAIN, PLAIN])
        envs.reset(seed=1)
        envs.send([PLAIN, FAIL])
        with pytest.raises(errors.ServerFaultError, match="a crash on demand"):
            envs.recv(2)
        assert envs.reset(seed=1)[0].tolist() == [[0], [0]]


@pytest.mark.parametrize(
    ("mode", "after", "later"),
    [("NextStep", [[2], [1], [2]], [[3], [0], [3]]), ("SameStep", [[2], [0], [2]], [[3], [1], [3]])],
    ids=["next step", "same step"],
)
def test_a_row_that_fails(trouble_url: str, mode: str, after: list, later: list) -> None:
    """The other rows continue, and the row begins an episode as the mode of autoreset says."""
    with VectorEnv(TROUBLE, 3, url=trouble_url, autoreset_mode=mode, env_error=True) as envs:
        envs.reset(seed=1)
        infos = envs.step([PLAIN, PLAIN, PLAIN])[4]
        assert "env_error" not in infos
        obs, rewards, terminations, truncations, infos = envs.step([PLAIN, FAIL, PLAIN])
        assert obs.tolist() == after
        assert rewards.tolist() == [1, 0, 1]
        assert terminations.tolist() == [False, False, False]
        assert truncations.tolist() == infos["_env_error"].tolist() == [False, True, False]
        assert infos["env_error"][1].startswith(CAUSE)
        assert infos["env_error"][0] is infos["env_error"][2] is None
        if mode == "SameStep":
            assert infos["final_obs"][1].tolist() == [1]
        obs, _, _, truncations, infos = envs.step([PLAIN, PLAIN, PLAIN])
        assert obs.tolist() == later
        assert not truncations.any()
        assert "env_error" not in infos


def test_rows_that_fail_in_disabled_mode(trouble_url: str) -> None:
    with VectorEnv(TROUBLE, 2, url=trouble_url, autoreset_mode="Disabled", env_error=True) as envs:
        envs.reset(seed=1)
        assert envs.step([FAIL, PLAIN])[3].tolist() == [True, False]
        obs, _ = envs.reset(options={"reset_mask": np.array([True, False])})
        assert obs.tolist() == [[0], [1]]
        assert envs.step([PLAIN, PLAIN])[0].tolist() == [[1], [2]]


def test_rows_that_fail_between_send_and_recv(trouble_url: str) -> None:
    """Messages stand beside the rows of the reply, not of the vector."""
    with VectorEnv(TROUBLE, 3, url=trouble_url, autoreset_mode="SameStep", env_error=True) as envs:
        envs.reset(seed=1)
        envs.send([FAIL, PLAIN], [2, 1])
        obs, rewards, _, truncations, infos = envs.recv(2)
        assert infos["env_id"].tolist() == [1, 2]
        assert obs.tolist() == [[1], [0]]
        assert rewards.tolist() == [1, 0]
        assert truncations.tolist() == infos["_env_error"].tolist() == [False, True]
        assert infos["env_error"][1].startswith(CAUSE)


def test_one_environment(trouble_url: str) -> None:
    with Env(TROUBLE, url=trouble_url, env_error=True) as env:
        env.reset(seed=1)
        env.step(PLAIN)
        obs, reward, terminated, truncated, info = env.step(FAIL)
        assert (obs.tolist(), reward, terminated, truncated) == ([1], 0, False, True)
        assert info["env_error"].startswith(CAUSE)
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(PLAIN)
        obs, info = env.reset()
        assert obs.tolist() == [0]
        assert "env_error" not in info
        assert "env_error" not in env.step(PLAIN)[4]


def test_a_failure_where_an_episode_begins(trouble_url: str) -> None:
    """There is a first observation all the same, of the next try."""
    with (
        Env(TROUBLE, url=trouble_url, env_error=True) as env,
        VectorEnv(TROUBLE, 2, url=trouble_url, env_error=True) as envs,
        VecEnv(TROUBLE, 1, url=trouble_url, env_error=True) as sb3,
    ):
        for each in (env, envs, sb3):
            each.reset()
        env.step(SPOIL)
        obs, info = env.reset()
        assert obs.tolist() == [0]
        assert "a crash at the beginning" in info["env_error"]
        env.step(SPOIL)
        obs, infos = envs.reset()
        assert obs.tolist() == [[0], [0]]
        assert infos["_env_error"].sum() == 1
        env.step(SPOIL)
        assert sb3.reset().tolist() == [[0]]
        assert "a crash at the beginning" in sb3.reset_infos[0]["env_error"]
        assert "env_error" not in env.reset()[1]


def test_stable_baselines3(trouble_url: str) -> None:
    """As an episode that ended by the time limit, so that SB3 bootstraps."""
    with VecEnv(TROUBLE, 2, url=trouble_url, env_error=True) as envs:
        envs.reset()
        envs.step(np.array([PLAIN, PLAIN]))
        obs, rewards, dones, infos = envs.step(np.array([FAIL, PLAIN]))
        assert obs.tolist() == [[0], [2]]
        assert rewards.tolist() == [0, 1]
        assert dones.tolist() == [True, False]
        assert infos[0]["env_error"].startswith(CAUSE)
        assert infos[0]["TimeLimit.truncated"]
        assert infos[0]["terminal_observation"].tolist() == [1]
        assert infos[0]["episode"]["r"] == 1
        assert "env_error" not in infos[1]
        assert all("env_error" not in info for info in envs.step(np.array([PLAIN, PLAIN]))[3])


def test_aio(trouble_url: str) -> None:
    async def main() -> None:
        async with aio.connect(trouble_url) as connection:
            env = await connection.make(TROUBLE, env_error=True)
            await env.reset(seed=1)
            obs, reward, terminated, truncated, info = await env.step(FAIL)
            assert (obs.tolist(), reward, terminated, truncated) == ([0], 0, False, True)
            assert info["env_error"].startswith(CAUSE)
            envs = await connection.make(TROUBLE, 2, env_error=True, autoreset_mode="SAME_STEP")
            await envs.reset(seed=1)
            infos = (await envs.step(np.array([PLAIN, FAIL])))[4]
            assert infos["_env_error"].tolist() == [False, True]
            part = await connection.make(BALANCE, obs_keys=["pod"])
            assert list(part.observation_space) == list((await part.reset(seed=3))[0]) == ["pod"]

    asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.parametrize("key", ["nodes", "pod"])
def test_parts_of_observations(url: str, key: str) -> None:
    """Each is that of whole observations; the environments are the same."""
    kwargs = {"url": url, "autoreset_mode": "SameStep", "max_episode_steps": 30}
    with (
        gymnasium.make_vec(BALANCE, 2, **kwargs) as whole,
        gymnasium.make_vec(BALANCE, 2, obs_keys=[key], **kwargs) as part,
        gymnasium.make(BALANCE, url=url, obs_keys=(key,)) as one,
    ):
        assert list(whole.single_observation_space) == ["nodes", "pod"]
        assert list(part.single_observation_space) == list(one.observation_space) == [key]
        assert part.single_observation_space[key] == whole.single_observation_space[key]
        assert {name.partition("/")[0] for name in one.unwrapped.spec_info.flat_feature_names} == {key}
        wanted, got = whole.reset(seed=4), part.reset(seed=4)
        first, _ = one.reset(seed=4)
        assert data_equivalence(first, {key: wanted[0][key][0]})
        rng = np.random.default_rng(0)
        ends = 0
        for _ in range(70):
            assert got[0].keys() == {key}
            np.testing.assert_array_equal(got[0][key], wanted[0][key], strict=True)
            actions = rng.integers(0, whole.single_action_space.n, 2)
            wanted, got = whole.step(actions), part.step(actions)
            np.testing.assert_array_equal(got[1], wanted[1])
            for i in np.flatnonzero(wanted[2] | wanted[3]):
                ends += 1
                assert data_equivalence(got[4]["final_obs"][i], {key: wanted[4]["final_obs"][i][key]})
        assert ends == 4  # two environments, after 30 and 60 steps


def test_parts_for_stable_baselines3(server: Server) -> None:
    with VecEnv(BALANCE, 2, url=server.url, obs_keys=["pod"]) as envs:
        assert list(envs.observation_space) == list(envs.reset()) == ["pod"]


def test_wrong_parts(server: Server) -> None:
    def make(**kwargs: Any) -> None:
        gymnasium.make_vec(kwargs.pop("env_id", BALANCE), 2, url=server.url, **kwargs)

    with pytest.raises(errors.InvalidOptionError, match=r'"none", want some of \["nodes" "pod"\]'):
        make(obs_keys=["none"])
    with pytest.raises(errors.InvalidOptionError, match="no Dict"):
        make(env_id="classic/CartPole-v1", obs_keys=["x"])
    with pytest.raises(errors.KubernasiumError):
        make(obs_keys=[])
    with pytest.raises(TypeError, match=r"want a sequence of keys, such as \['pod'\]"):
        make(obs_keys="pod")
