"""Snapshots and forks of environments at the server."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from kubernasium import errors
from kubernasium.protocol import Connection, Vector
from kubernasium.registration import catalog

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"
IDS = [spec["id"] for spec in catalog() if "Kwok" not in spec["id"]]  # twins are on an API server


def plain(value: Any) -> Any:
    """Returns nested arrays as bytes, to be compared to the last bit."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(part) for part in value]
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("env_id", IDS)
def test_vector(env_id: str, mode: str) -> None:
    with gymnasium.make_vec(env_id, 3, autoreset_mode=mode, max_episode_steps=12) as envs:
        envs.reset(seed=3)
        for _ in range(5):
            last = envs.step(envs.policy("random"))
        moment = envs.snapshot()
        actions, played = [], []
        for _ in range(25):
            actions.append(envs.policy("random"))
            played.append(plain(envs.step(actions[-1])))
        for _ in range(2):
            back = envs.restore(moment)
            for got, want in zip(back[:4], last[:4], strict=True):
                assert plain(got) == plain(want)
            assert {key: plain(part) for key, part in back[4].items() if "final" not in key} == {
                key: plain(part) for key, part in last[4].items() if "final" not in key
            }
            assert [plain(envs.step(action)) for action in actions] == played
        envs.forget(moment)
        with pytest.raises(errors.UnknownSnapshotError):
            envs.restore(moment)


def test_env() -> None:
    with gymnasium.make(GANG, steps=20) as wrapped:
        env = wrapped.unwrapped
        env.reset(seed=1)
        for action in (1, 0, 2):
            obs, *_, info = env.step(action)
        moment = env.snapshot()
        played = [plain(env.step(action)) for action in (3, 0, 0, 1)]
        again, again_info = env.restore(moment)
        np.testing.assert_array_equal(again, obs)
        assert plain(again_info) == plain(info)
        assert [plain(env.step(action)) for action in (3, 0, 0, 1)] == played
        env.forget(moment)
        with pytest.raises(errors.UnknownSnapshotError):
            env.forget(moment)


def test_search_by_forks() -> None:
    """One step of look-ahead: each copy tries another action, and the best is kept."""
    with gymnasium.make_vec(GANG, 4, steps=20) as envs:
        envs.reset(seed=2)
        obs, *_ = envs.fork(1, [0, 2, 3])
        assert (obs == obs[1]).all()
        for _ in range(10):
            rewards = envs.step(np.arange(4))[1]
            best = int(rewards.argmax())
            obs, kept, *_ = envs.fork(best, [i for i in range(4) if i != best])
            assert (obs == obs[best]).all()
            assert (kept == rewards[best]).all()


def test_refusals(connection: Connection) -> None:
    vector = Vector(connection, CARTPOLE, 2)
    assert vector.copies
    other = Vector(connection, CARTPOLE, 2)
    moment = vector.snapshot()
    with pytest.raises(errors.UnknownSnapshotError):
        other.restore(moment)
    for source, targets in ((2, [0]), (0, [2]), (0, [])):
        with pytest.raises(errors.InvalidArgumentError):
            vector.fork(source, targets)
    for _ in range(connection.limits["snapshots"] // 2 - 1):
        vector.snapshot()
    with pytest.raises(errors.BusyError, match="forget"):
        other.snapshot()
    vector.close()  # frees its snapshots
    other.snapshot()
    connection.caps = frozenset({"baseline", "rollout"})
    for call in (other.snapshot, lambda: other.restore(1), lambda: other.forget(1), lambda: other.fork(0, [1])):
        with pytest.raises(errors.UnimplementedError):
            call()
