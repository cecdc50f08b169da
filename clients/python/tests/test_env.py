"""Single environments through gymnasium.make."""

from __future__ import annotations

import json
import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics, TimeLimit

import kubernasium
from kubernasium import errors
from kubernasium.launcher import Server
from kubernasium.protocol import encode
from kubernasium.protocol.layout import Layout
from kubernasium.protocol.transport import START
from kubernasium.registration import catalog
from kubernasium.spaces import from_description, mask_for_sample

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"
IDS = [spec["id"] for spec in catalog() if "Kwok" not in spec["id"]]  # twins want a control plane


def checker_warnings(env: gymnasium.Env, render: bool = True) -> set[str]:
    """Returns what Gymnasium's check_env warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env.unwrapped, skip_render_check=not render)
    env.close()
    return {str(w.message) for w in caught}


@pytest.mark.parametrize("env_id", IDS)
def test_check_env(env_id: str) -> None:
    assert checker_warnings(gymnasium.make(env_id)) == set()


def test_checker_warns() -> None:
    """Of infinite bounds, which Gymnasium's own CartPole has, and ours on request."""
    ours = checker_warnings(gymnasium.make(CARTPOLE, infinite_bounds=True))
    assert len(ours) == 2
    assert ours == checker_warnings(gymnasium.make("CartPole-v1"), render=False)


def test_cartpole_equals_gymnasiums() -> None:
    """1,000 random episodes: half of them seeded, the others with the stream that follows."""
    rng = np.random.default_rng(0)
    lengths = []
    with gymnasium.make(CARTPOLE, infinite_bounds=True) as ours, gymnasium.make("CartPole-v1") as theirs:
        assert ours.observation_space == theirs.observation_space
        assert ours.action_space == theirs.action_space
        assert ours.spec.max_episode_steps == theirs.spec.max_episode_steps
        assert ours.spec.reward_threshold == theirs.spec.reward_threshold
        for episode in range(1000):
            seed = episode if episode % 2 == 0 else None
            one, _ = ours.reset(seed=seed)
            other, _ = theirs.reset(seed=seed)
            np.testing.assert_array_equal(one, other, strict=True)
            done = False
            length = 0
            while not done:
                action = rng.integers(2)
                step, want = ours.step(action), theirs.step(action)
                assert step[0].tobytes() == want[0].tobytes()
                assert step[1:4] == want[1:4]
                done = step[2] or step[3]
                length += 1
            lengths.append(length)
    assert 15 < np.mean(lengths) < 30


def test_types_of_a_step() -> None:
    with gymnasium.make(GANG) as env:
        env.reset(seed=0)
        obs, reward, terminated, truncated, info = env.step(0)
        assert type(reward) is float
        assert type(terminated) is bool
        assert type(truncated) is bool
        assert obs.dtype == np.float32
        assert obs.flags.writeable
        assert {type(info["duration_s"]), type(info["checkpoints"])} == {float, int}
        assert info["action_mask"].dtype == np.int8


def test_seeds_and_streams() -> None:
    with gymnasium.make(GANG) as env:
        first, _ = env.reset(seed=5)
        second, _ = env.reset()
        again, _ = env.reset(seed=5)
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, second)  # without a seed, no episode repeats
        np.testing.assert_array_equal(env.reset()[0], second)
        assert env.unwrapped.np_random_seed == 5


def test_options_of_make_and_reset() -> None:
    with gymnasium.make(GANG, windows=5, horizon=7, steps=11) as env:
        assert env.action_space.n == 6
        env.reset(seed=0)
        steps = 0
        while not env.step(0)[3]:
            steps += 1
        assert steps == 10
    with gymnasium.make(CARTPOLE) as env:
        obs, _ = env.reset(seed=0, options={"low": 0.25, "high": 0.25})
        np.testing.assert_array_equal(obs, np.full(4, 0.25, np.float32))
        with pytest.raises(errors.InvalidOptionError):
            env.reset(options={"lowest": 1})
    with pytest.raises(errors.InvalidOptionError, match="windows"):
        gymnasium.make(GANG, window=5)
    with pytest.raises(errors.UnknownEnvError):
        kubernasium.Env("k8s/GangWindo-v0")


def test_time_limit() -> None:
    """The argument of make works in both directions; without the wrapper there is no limit."""

    def length(env: gymnasium.Env, most: int = 700) -> int:
        with env:
            obs, _ = env.reset(seed=1)
            for step in range(1, most + 1):
                x, v, theta, omega = obs
                obs, _, terminated, truncated, _ = env.step(int(0.1 * x + 0.2 * v + theta + 0.5 * omega > 0))
                assert not terminated
                if truncated:
                    return step
        return most

    assert length(gymnasium.make(CARTPOLE)) == 500
    assert length(gymnasium.make(CARTPOLE, max_episode_steps=30)) == 30
    assert length(gymnasium.make(CARTPOLE, max_episode_steps=600)) == 600
    assert length(gymnasium.make(CARTPOLE, max_episode_steps=-1)) == 700
    assert length(gymnasium.make(CARTPOLE).unwrapped) == 700
    assert length(kubernasium.Env(CARTPOLE)) == 500
    assert isinstance(gymnasium.make(CARTPOLE), TimeLimit)


def test_mistakes() -> None:
    env = gymnasium.make(CARTPOLE).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction):
        env.step(2)
    with pytest.raises(kubernasium.KubernasiumError):
        env.step(-1)
    while not env.step(1)[2]:
        pass
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step(0)):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError):
            call()


def test_action_masks() -> None:
    with gymnasium.make(GANG) as env:
        _, info = env.reset(seed=0)
        mask = env.get_wrapper_attr("action_masks")()
        assert mask.dtype == np.bool_
        np.testing.assert_array_equal(mask, info["action_mask"])
        info["action_mask"][:] = 0  # the user's, not the environment's next one
        info = env.step(env.action_space.sample(info["action_mask"]))[4]
        assert info["action_mask"].any()


def test_rendering() -> None:
    with gymnasium.make(CARTPOLE, render_mode="rgb_array") as env:
        env.reset(seed=0)
        frame = env.render()
        assert frame.dtype == np.uint8
        assert frame.ndim == 3
    with gymnasium.make(GANG, render_mode="ansi") as env:
        env.reset(seed=0)
        assert isinstance(env.render(), str)
    with kubernasium.Env(GANG) as env:
        assert env.render() is None
    with pytest.raises(errors.InvalidOptionError):
        kubernasium.Env(GANG, render_mode="hologram")


def test_wrappers() -> None:
    with RecordEpisodeStatistics(FlattenObservation(gymnasium.make(CARTPOLE))) as env:
        env.reset(seed=0)
        done = False
        while not done:
            *_, terminated, truncated, info = env.step(0)
            done = terminated or truncated
        assert info["episode"]["l"] == info["episode"]["r"]


def test_spec_is_plain_data(server: Server) -> None:
    with gymnasium.make(GANG, steps=20, url=server.url) as env:
        text = env.spec.to_json()
        assert json.loads(text)["id"] == GANG
        assert pickle.loads(pickle.dumps(env.spec)).id == GANG
        copy = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(text))
        np.testing.assert_array_equal(copy.reset(seed=3)[0], env.reset(seed=3)[0])
        copy.close()


def test_spaces() -> None:
    box = {"kind": "box", "shape": [2, 2], "dtype": "float32", "low": [-1.0], "high": [1.0, 2.0, 3.0, "inf"]}
    parts = [box, {"kind": "discrete", "dtype": "int64", "n": [3]}]
    space = from_description({"kind": "dict", "keys": ["z", "a"], "parts": parts})
    assert list(space.spaces) == ["z", "a"]  # the order of the protocol
    assert space["z"] == gymnasium.spaces.Box(
        np.full((2, 2), -1, np.float32), np.array([[1, 2], [3, np.inf]], np.float32), dtype=np.float32
    )
    assert space["a"] == gymnasium.spaces.Discrete(3)
    multi = from_description({"kind": "multi_discrete", "shape": [2], "dtype": "int64", "n": [2, 3]})
    assert multi == gymnasium.spaces.MultiDiscrete([2, 3])
    mask = np.array([0, 1, 0, 0, 1], np.int8)
    assert multi.sample(mask_for_sample(multi, mask)).tolist() == [1, 2]
    binary = from_description({"kind": "multi_binary", "shape": [3], "dtype": "int8", "n": [3]})
    assert binary == gymnasium.spaces.MultiBinary(3)
    mask = np.array([1, 0, 0, 1, 0, 1], np.int8)
    assert binary.sample(mask_for_sample(binary, mask)).tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="graph"):
        from_description({"kind": "graph"})


def test_infos_without_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since 1.3 a column of infos may lack a value in some rows: its key is then absent, and no key begins with _."""
    columns = {
        "a": np.array([1.5]),
        "_a": np.array([False]),
        "b": np.array([7]),
        "c": np.array([2]),
        "_c": np.array([True]),
    }
    with gymnasium.make("classic/CartPole-v1").unwrapped as env:
        env.reset(seed=0)
        frame = encode(
            {"t": "step.ok", "id": 1 << 40, "obs": np.zeros((1, 4), np.float32), "r": np.zeros(1), "info": columns}
        )
        buf = bytearray(START) + frame
        monkeypatch.setattr(env.vector, "step_one", lambda action, **kwargs: (buf, Layout(buf, START)))
        infos = [env.step(0)[4], env._state({"obs": np.zeros((1, 4), np.float32), "info": columns})[1]]
        for info in infos:
            assert info.pop("action_mask").shape == (2,)
        assert infos == [{"b": 7, "c": 2}] * 2
