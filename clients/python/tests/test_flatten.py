"""Flat observations read from frames, beside those of `gymnasium.spaces.flatten`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

import kubernasium
from kubernasium.flatten import FlatFrames, flatten_rows
from kubernasium.launcher import Server
from kubernasium.protocol.codec import encode
from kubernasium.protocol.layout import Layout
from kubernasium.protocol.transport import START


def by_gymnasium(space: spaces.Space[Any], batch: Any, n: int) -> np.ndarray:
    return np.array([spaces.flatten(space, row) for row in iterate(batch_space(space, n), batch)])


@pytest.mark.parametrize("wire", ["unix", "ws"])
@pytest.mark.parametrize("env_id", ["k8s/GPUPodScheduling-v1", "k8s/PodBalance-v0", "k8s/GangWindow-v0"])
def test_frames_hold_the_rows_of_gymnasium(server: Server, env_id: str, wire: str) -> None:
    """Equal bits in each step, also when episodes end, and of all else that a step returns."""
    n = 5
    url = server.url if wire == "unix" else server.ws_url
    with (
        kubernasium.make_vec(env_id, n, url=url, max_episode_steps=7) as envs,
        kubernasium.make_vec(env_id, n, url=url, max_episode_steps=7) as same,
    ):
        space, vector = envs.single_observation_space, envs.unwrapped.vector
        envs.reset(seed=3)
        same.reset(seed=3)
        rng = np.random.default_rng(0)
        ended = 0
        for _ in range(20):
            actions = rng.integers(0, 2, n)
            vector.step_async(actions)
            frame, layout = vector.step_wait_frame()
            reader = FlatFrames.of(layout, space, n, np.dtype(np.float32))
            assert reader is not None
            rows, (rewards, terminations, truncations, mask) = reader.observations(frame), reader.others(frame)
            memoryview(frame)[:] = bytes(len(frame))  # what was read is its own
            obs, want_rewards, want_terminations, want_truncations, infos = same.step(actions)
            np.testing.assert_array_equal(rows.view(np.uint32), by_gymnasium(space, obs, n).view(np.uint32))
            np.testing.assert_array_equal(rewards, want_rewards, strict=True)
            got = [np.zeros(n, np.bool_) if flags is None else flags for flags in (terminations, truncations)]
            np.testing.assert_array_equal(got, [want_terminations, want_truncations], strict=True)
            if "action_mask" in infos:
                got_mask = np.ones_like(infos["action_mask"]) if mask is None else mask
                np.testing.assert_array_equal(got_mask, infos["action_mask"], strict=True)
            ended += int(got[1].sum())
        assert ended >= 2 * n


def frame_of(obs: Any) -> tuple[bytearray, Layout]:
    buf = bytearray(START) + encode({"t": "step.ok", "id": 1 << 32, "obs": obs, "r": np.array([1.0, 2.0])})
    return buf, Layout(buf, START)


def test_parts_in_the_order_of_the_space() -> None:
    """A Dict sorts its keys; a frame need not. Parts within parts are read, too."""
    space = spaces.Dict(
        {"b": spaces.Box(0, 9, (2, 2)), "a": spaces.Dict({"z": spaces.Box(0, 9, (1,)), "y": spaces.Box(0, 9)})}
    )
    f4 = np.float32
    obs = {
        "b": np.arange(8, dtype=f4).reshape(2, 2, 2), "a": {"z": np.array([[8], [9]], f4), "y": np.array([10, 11], f4)}
    }  # fmt: skip
    buf, layout = frame_of(obs)
    reader = FlatFrames.of(layout, space, 2, np.dtype(f4))
    assert reader is not None
    want = [[10, 8, 0, 1, 2, 3], [11, 9, 4, 5, 6, 7]]  # a.y, a.z, b
    np.testing.assert_array_equal(reader.observations(buf), np.array(want, f4), strict=True)
    np.testing.assert_array_equal(flatten_rows(space, obs, 2), np.array(want, f4), strict=True)
    rewards, terminations, truncations, mask = reader.others(buf)
    np.testing.assert_array_equal(rewards, [1.0, 2.0])
    assert (terminations, truncations, mask) == (None, None, None)


@pytest.mark.parametrize("other", [spaces.Discrete(4), spaces.Box(0, 9, (1,), np.int64)])
def test_other_parts_are_left_to_flatten_rows(other: spaces.Space[Any]) -> None:
    """Parts that are no arrays of the rows' dtype need a conversion."""
    space = spaces.Dict({"a": spaces.Box(0, 9, (1,)), "b": other})
    values = np.array([[1], [2]], np.int64) if isinstance(other, spaces.Box) else np.array([1, 2], np.int64)
    _, layout = frame_of({"a": np.zeros((2, 1), np.float32), "b": values})
    assert FlatFrames.of(layout, space, 2, np.dtype(np.float32)) is None


def test_flatten_rows() -> None:
    """Rows are those of `gymnasium.spaces.flatten`, also of parts that are no boxes."""
    parts = {
        "box": spaces.Box(-1, 1, (2, 3), np.float32), "count": spaces.Discrete(4), "pair": spaces.MultiDiscrete([2, 3]),
        "bits": spaces.MultiBinary(2),
        "both": spaces.Dict({"b": spaces.Box(0, 9, (1,), np.int64), "a": spaces.Box(0, 1)}),
    }  # fmt: skip
    space = spaces.Dict(parts)
    batched = batch_space(space, 3)
    batched.seed(1)
    batch = batched.sample()
    np.testing.assert_array_equal(flatten_rows(space, batch, 3), by_gymnasium(space, batch, 3))
