"""Vector environments through gymnasium.make_vec, against Gymnasium's own."""

from __future__ import annotations

import importlib.util
import typing
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, NormalizeObservation, RecordEpisodeStatistics

import kubernasium
from kubernasium import errors

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"
TESTDATA = Path(__file__).parent / "testdata"

_spec = importlib.util.spec_from_file_location("record", TESTDATA / "record.py")
record = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(record)


@pytest.mark.parametrize("name", record.TRACES)
def test_recorded_traces(name: str) -> None:
    """Equal, bit for bit, to what SyncVectorEnv returned for Gymnasium's CartPole."""
    mode, limit, seed, options = record.TRACES[name]
    with np.load(TESTDATA / "vector_traces.npz") as file:
        want = {key.partition("/")[2]: file[key] for key in file if key.startswith(name + "/")}
    kwargs = {} if limit is None else {"max_episode_steps": limit}
    envs = gymnasium.make_vec(CARTPOLE, record.NUM_ENVS, autoreset_mode=mode, **kwargs)
    assert envs.metadata["autoreset_mode"] is mode
    obs, _ = envs.reset(seed=seed, options=dict(options))
    np.testing.assert_array_equal(obs, want["obs"][0], strict=True)
    for t, action in enumerate(want["actions"]):
        mask = want["reset_mask"][t]
        if mask.any():
            if t in record.RESET_AT:
                obs, _ = envs.reset(seed=record.RESET_AT[t])
            else:
                obs, infos = envs.reset(options={"reset_mask": mask})
                np.testing.assert_array_equal(infos["_action_mask"], mask)
            np.testing.assert_array_equal(obs, want["reset_obs"][t], strict=True)
        obs, rewards, terminations, truncations, infos = envs.step(action)
        np.testing.assert_array_equal(obs, want["obs"][t + 1], strict=True)
        np.testing.assert_array_equal(rewards, want["rewards"][t], strict=True)
        np.testing.assert_array_equal(terminations, want["terminations"][t], strict=True)
        np.testing.assert_array_equal(truncations, want["truncations"][t], strict=True)
        ended = want["has_final"][t]
        assert ("final_obs" in infos) == ended.any()
        if ended.any():
            np.testing.assert_array_equal(infos["_final_obs"], ended)
            np.testing.assert_array_equal(infos["_final_info"], ended)
            for i in range(record.NUM_ENVS):
                if ended[i]:
                    np.testing.assert_array_equal(infos["final_obs"][i], want["final_obs"][t, i], strict=True)
                else:
                    assert infos["final_obs"][i] is None
    envs.close()


@pytest.mark.parametrize("mode", AutoresetMode)
def test_infos_equal_those_of_sync_vector_env(mode: AutoresetMode) -> None:
    """The native vector against Gymnasium's SyncVectorEnv around our single environments."""
    n, options = 3, {"steps": 7, "instances": 3}
    ours = gymnasium.make_vec(GANG, n, autoreset_mode=mode, **options)
    theirs = gymnasium.make_vec(GANG, n, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **options)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    rng = np.random.default_rng(0)
    pairs = [(ours.reset(seed=4), theirs.reset(seed=4))]
    for _ in range(20):
        action = rng.integers(0, 4, n)
        step = ours.step(action)
        pairs.append((step, theirs.step(action)))
        if mode is AutoresetMode.DISABLED and (step[2] | step[3]).any():
            mask = step[2] | step[3]
            pairs.append((ours.reset(options={"reset_mask": mask}), theirs.reset(options={"reset_mask": mask.copy()})))
    for one, other in pairs:
        for got, want in zip(one[:-1], other[:-1], strict=True):
            np.testing.assert_array_equal(got, want, strict=True)
        assert_same_infos(one[-1], other[-1])
    ours.close()
    theirs.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_invalid_actions_as_in_sync_vector_env(mode: AutoresetMode) -> None:
    """`invalid` of an episode's last step is in its `final_info`, where Gymnasium's vectors put it."""
    n, env_id, limit = 3, "k8s/GPUPodScheduling-v0", {"max_episode_steps": 4}
    ours = gymnasium.make_vec(env_id, n, autoreset_mode=mode, **limit)
    theirs = gymnasium.make_vec(env_id, n, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **limit)
    _, infos = ours.reset(seed=4)
    assert_same_infos(infos, theirs.reset(seed=4)[1])
    seen = {"last": 0, "before": 0, "beside": 0}
    for step in range(16):
        masks = infos["action_mask"]
        masked = step // 2 % 2 if step < 8 else step % n  # all rows, none, and then one
        wrong = np.full(n, bool(masked)) if step < 8 else np.arange(n) == masked
        action = np.where(wrong, masks.argmin(axis=1), masks.argmax(axis=1))
        *_, infos = ours.step(action)
        assert_same_infos(infos, theirs.step(action)[-1])
        final = infos.get("final_info", {})
        seen["last"] += "invalid" in final
        seen["before"] += "invalid" in infos
        seen["beside"] += "invalid" in infos and "final_info" in infos
    assert seen["before"]
    if mode is AutoresetMode.SAME_STEP:
        assert seen["last"]
    ours.close()
    theirs.close()


def test_attributes_as_of_sync_vector_env() -> None:
    options = {"steps": 7, "instances": 3}
    ours = gymnasium.make_vec(GANG, 3, render_mode="ansi", **options)
    theirs = gymnasium.make_vec(GANG, 3, vectorization_mode="sync", render_mode="ansi", **options)
    ours.reset(seed=4)
    theirs.reset(seed=4)
    for name in ("render_mode", "observation_space", "action_space", "action_masks", "render"):
        assert_same(ours.call(name), theirs.call(name))
    assert [spec.id for spec in ours.get_attr("spec")] == [spec.id for spec in theirs.get_attr("spec")]
    assert_same(ours.call("policy", "static_2"), theirs.call("policy", "static_2"))
    for values in ([1, "a", None], (4, 5, 6), "one for all"):
        ours.set_attr("goal", values)
        theirs.set_attr("goal", values)
        assert ours.get_attr("goal") == theirs.get_attr("goal")
    for envs in (ours, theirs):
        with pytest.raises(ValueError, match=r"\b2\b.* values"):
            envs.set_attr("goal", [1, 2])
        with pytest.raises(AttributeError):
            envs.call("goals")
    for name in ("steps", "action_space", "policy"):
        with pytest.raises(AttributeError, match=name):
            ours.set_attr(name, 3)
    ours.close()
    theirs.close()


def assert_same(got: tuple, want: tuple) -> None:
    assert type(got) is type(want)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_make_vec_says_what_it_makes() -> None:
    """The class has `policy`, which Gymnasium's own vectors lack, and a type checker sees it."""
    hints = typing.get_type_hints(kubernasium.make_vec)
    assert hints["return"] is kubernasium.VectorEnv
    assert "baseline" in kubernasium.VectorEnv.policy.__doc__
    assert not hasattr(gymnasium.vector.VectorEnv, "policy")
    with kubernasium.make_vec(GANG, 2, steps=7) as envs, gymnasium.make_vec(GANG, 2, steps=7) as same:
        assert type(envs) is type(same) is hints["return"]
        assert envs.spec == same.spec
        np.testing.assert_array_equal(envs.reset(seed=1)[0], same.reset(seed=1)[0])
        assert envs.policy("static_2").tolist() == same.policy("static_2").tolist()


def test_make_vec_refuses_other_environments() -> None:
    with pytest.raises(TypeError, match="CartPole-v1 is no environment of kubernasium"):
        kubernasium.make_vec("CartPole-v1", 2)


def assert_same_infos(got: dict, want: dict) -> None:
    assert got.keys() == want.keys()
    for key, value in want.items():
        if isinstance(value, dict):
            assert_same_infos(got[key], value)
        elif value.dtype == object:
            for one, other in zip(got[key], value, strict=True):
                assert data_equivalence(one, other)
        else:
            np.testing.assert_array_equal(got[key], value)
            assert got[key].dtype.kind == value.dtype.kind


@pytest.mark.parametrize("env_id", [CARTPOLE, GANG])
def test_make_vec_gives_no_warning(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = gymnasium.make_vec(env_id, num_envs=64)
        assert envs.spec.id == env_id
        assert envs.num_envs == 64
        obs, _ = envs.reset(seed=0)
        assert envs.observation_space.contains(obs)
        step = envs.step(envs.action_space.sample())
        assert envs.observation_space.contains(step[0])
        envs.close()


def test_replies_do_not_share_memory() -> None:
    with gymnasium.make_vec(GANG, 4) as envs:
        one = envs.reset(seed=0)
        kept = one[0].copy()
        two = envs.step(np.zeros(4, np.int64))
        two[0][:] = -1
        two[4]["action_mask"][:] = 0
        np.testing.assert_array_equal(one[0], kept)
        assert envs.action_masks().all()


def test_mistakes() -> None:
    envs = gymnasium.make_vec(CARTPOLE, 3, autoreset_mode="Disabled")
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros(3, np.int64))
    envs.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction):
        envs.step(np.array([0, 1, 2]))
    for mask, error in (
        ([True, False, False], TypeError),
        (np.ones(2, bool), ValueError),
        (np.ones(3, np.int8), TypeError),
        (np.zeros(3, bool), ValueError),
    ):
        with pytest.raises(error):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="2 seeds"):
        envs.reset(seed=[1, 2])
    done = np.zeros(3, bool)
    while not done.any():
        _, _, terminations, truncations, _ = envs.step(np.ones(3, np.int64))
        done = terminations | truncations
    with pytest.raises(errors.ResetNeededError):
        envs.step(np.ones(3, np.int64))
    envs.close()
    envs.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.reset()
    with pytest.raises(ValueError, match="AutoresetMode"):
        gymnasium.make_vec(CARTPOLE, 3, autoreset_mode="Sometimes")


def test_async() -> None:
    """Two halves: one is stepped while the other's actions are chosen."""
    halves = [gymnasium.make_vec(CARTPOLE, 8) for _ in range(2)]
    whole = [gymnasium.make_vec(CARTPOLE, 8) for _ in range(2)]
    for i in range(2):
        np.testing.assert_array_equal(halves[i].reset(seed=i)[0], whole[i].reset(seed=i)[0])
    rng = np.random.default_rng(0)
    for _ in range(50):
        actions = rng.integers(0, 2, (2, 8))
        for i in range(2):
            halves[i].step_async(actions[i])
        with pytest.raises(gymnasium.error.AlreadyPendingCallError):
            halves[0].step_async(actions[0])
        for i in range(2):
            np.testing.assert_array_equal(halves[i].step_wait(timeout=60)[0], whole[i].step(actions[i])[0])
    with pytest.raises(gymnasium.error.NoAsyncCallError):
        halves[0].step_wait()
    for envs in (*halves, *whole):
        envs.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_vector_wrappers(mode: AutoresetMode) -> None:
    envs = gymnasium.make_vec(CARTPOLE, 8, autoreset_mode=mode)
    if mode is AutoresetMode.NEXT_STEP:  # the only one of the two that this wrapper takes
        envs = NormalizeObservation(envs)
    envs = RecordEpisodeStatistics(envs)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    lengths = []
    for _ in range(200):
        infos = envs.step(rng.integers(0, 2, 8))[4]
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
    assert len(lengths) > 20
    assert 10 < np.mean(lengths) < 40
    envs.close()
    listed = DictInfoToList(gymnasium.make_vec(GANG, 3))
    assert [set(info) >= {"total_s", "action_mask"} for info in listed.reset(seed=0)[1]] == [True] * 3
    listed.close()


def test_rendering() -> None:
    with gymnasium.make_vec(CARTPOLE, 2, render_mode="rgb_array") as envs:
        envs.reset(seed=0)
        frames = envs.render()
        assert len(frames) == 2
        assert frames[0].dtype == np.uint8
