"""Stable-Baselines3 and sb3-contrib: the VecEnv's contract, and learning with it."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

import kubernasium
from kubernasium.registration import catalog
from kubernasium.sb3 import VecEnv

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"
IDS = [spec["id"] for spec in catalog() if "Kwok" not in spec["id"]]  # twins want a control plane

torch.set_num_threads(1)  # networks this small are slower with more


@pytest.mark.parametrize("env_id", IDS)
def test_check_env(env_id: str) -> None:
    """No warnings, but for the advice to flatten rows of nodes, and to take the later version of an id."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Your observation (nodes|edges) has an unconventional shape")
        name, _, version = env_id.rpartition("-v")
        if f"{name}-v{int(version) + 1}" in IDS:
            warnings.filterwarnings("ignore", ".*is out of date")
        with gymnasium.make(env_id) as env:
            check_env(env.unwrapped)


@pytest.mark.parametrize("limit", [500, 12])
def test_equals_sb3s_own_vec_env(limit: int) -> None:
    """The same steps as DummyVecEnv of Gymnasium's CartPole, Monitor's infos included."""
    n = 4
    theirs = make_vec_env("CartPole-v1", n, seed=9, env_kwargs={"max_episode_steps": limit})
    ours = VecEnv(CARTPOLE, n, seed=9, max_episode_steps=limit, infinite_bounds=True)
    assert ours.observation_space == theirs.observation_space
    np.testing.assert_array_equal(ours.reset(), theirs.reset(), strict=True)
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(300):
        action = rng.integers(0, 2, n)
        step, want = ours.step(action), theirs.step(action)
        for got, expected in zip(step[:3], want[:3], strict=True):
            np.testing.assert_array_equal(got, expected, strict=True)
        for info, expected in zip(step[3], want[3], strict=True):
            assert info.keys() == expected.keys()
            assert info["TimeLimit.truncated"] is expected["TimeLimit.truncated"]
            if "terminal_observation" in expected:
                ends += 1
                np.testing.assert_array_equal(info["terminal_observation"], expected["terminal_observation"])
                assert info["episode"]["r"] == expected["episode"]["r"]
                assert info["episode"]["l"] == expected["episode"]["l"]
                assert info["episode"]["t"] >= 0
    assert ends > 30
    ours.close()
    theirs.close()


def test_infos() -> None:
    with VecEnv(GANG, 2, seed=0, steps=3) as envs:
        envs.reset()
        assert envs.reset_infos[0]["total_s"] == 0
        for _ in range(2):
            infos = envs.step(np.array([1, 0]))[3]
        before = infos[1]["total_s"]
        infos = envs.step(np.array([1, 0]))[3]
        assert infos[1]["total_s"] > before  # of the episode that ended, not of the next one
        assert envs.reset_infos[1]["total_s"] == 0
        assert infos[0]["TimeLimit.truncated"]


def test_attributes_and_methods() -> None:
    with VecEnv(GANG, 3, render_mode="rgb_array") as envs:
        envs.reset()
        assert is_masking_supported(envs)
        assert get_action_masks(envs).shape == (3, 4)
        assert [mask.shape for mask in envs.env_method("action_masks", indices=[0, 2])] == [(4,), (4,)]
        assert envs.get_attr("action_masks", 1)[0]().tolist() == [True] * 4
        assert envs.get_attr("spec")[0].id == GANG
        assert envs.get_attr("render_mode") == ["rgb_array"] * 3
        assert envs.render().dtype == np.uint8
        assert not envs.has_attr("gravity")
        with pytest.raises(AttributeError):
            envs.env_method("fly")
        with pytest.raises(AttributeError):
            envs.set_attr("gravity", 1)
    envs.close()


def test_seed_and_options() -> None:
    with VecEnv(CARTPOLE, 3) as envs:
        envs.seed(5)
        first = envs.reset()
        assert not np.array_equal(first, envs.reset())
        envs.seed(5)
        np.testing.assert_array_equal(envs.reset(), first)
        envs.set_options({"low": 0.5, "high": 0.5})
        assert (envs.reset() == 0.5).all()
        envs.set_options([{"low": x, "high": x} for x in (0.125, 0.25, 0.5)])
        np.testing.assert_array_equal(envs.reset()[:, 0], [0.125, 0.25, 0.5])
        assert np.abs(envs.reset()).max() <= 0.05


def test_sb3_wrappers() -> None:
    with pytest.warns(UserWarning, match="already wrapped with a `Monitor`"):
        envs = VecMonitor(VecEnv(CARTPOLE, 4, seed=0))
    envs = VecNormalize(envs)
    envs.reset()
    for _ in range(60):
        infos = envs.step(np.ones(4, np.int64))[3]
    assert any(True for info in infos if "TimeLimit.truncated" in info)
    envs.close()


SMALL = {"policy": "MlpPolicy", "seed": 0, "device": "cpu"}
LEARNERS = {
    "PPO": (PPO, {"n_steps": 64, "n_epochs": 2}),
    "DQN": (DQN, {"learning_starts": 100, "train_freq": 16}),
    "A2C": (A2C, {}),
    "MaskablePPO": (MaskablePPO, {"n_steps": 64, "n_epochs": 2}),
}


@pytest.mark.parametrize("env_id", [CARTPOLE, GANG])
@pytest.mark.parametrize("name", LEARNERS)
def test_learning(name: str, env_id: str) -> None:
    """2,000 steps of each algorithm, and its evaluation, without a warning of SB3."""
    learner, kwargs = LEARNERS[name]
    options = {"steps": 50, "instances": 8} if env_id == GANG else {}
    with warnings.catch_warnings(), VecEnv(env_id, 4, seed=0, **options) as envs:
        warnings.simplefilter("error", UserWarning)
        model = learner(env=envs, **SMALL, **kwargs).learn(2000)
        assert model.num_timesteps >= 2000
        assert len(model.ep_info_buffer) > 10
        evaluate = evaluate_masked if learner is MaskablePPO else evaluate_policy
        mean, _ = evaluate(model, envs, n_eval_episodes=4)
        assert np.isfinite(mean)


def test_learning_with_make() -> None:
    """SB3 around gymnasium.make, as users of other environments write it."""
    model = PPO("MlpPolicy", CARTPOLE, n_steps=256, seed=0, device="cpu").learn(2000)
    assert model.num_timesteps >= 2000
    model.get_env().close()


def test_ppo_learns_cartpole() -> None:
    """A return of 150 within 20,000 steps, from 22; the seeds 1 to 5 gave 250 to 500."""
    with VecEnv(CARTPOLE, 8, seed=1) as envs:
        model = PPO("MlpPolicy", envs, n_steps=128, batch_size=256, learning_rate=1e-3, seed=1, device="cpu")
        model.learn(20_000)
        mean, _ = evaluate_policy(model, envs, n_eval_episodes=10)
    assert mean > 150


def test_version() -> None:
    assert kubernasium.__version__


def test_infos_without_a_value() -> None:
    """Since 1.3 a column of infos may lack a value in some rows: its key is then absent there."""
    columns = {"a": np.array([1.5, 2.5]), "_a": np.array([False, True]), "b": np.array([7, 8])}
    assert VecEnv._split(columns, 2) == [{"b": 7}, {"a": 2.5, "b": 8}]
