"""Steps of single environments: `send` begins them, `recv` returns those that ended first."""

from __future__ import annotations

import socket
from typing import Any

import gymnasium
import numpy as np
import pytest

from chaos import Digest
from kubernasium import errors
from kubernasium.launcher import Server
from kubernasium.protocol import Connection, Vector, connect
from kubernasium.protocol import connection as connection_module
from kubernasium.protocol.journal import CannotRebuildError
from kubernasium.row import pick
from kubernasium.vector import VectorEnv

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"
MASKED = "k8s/GPUPodScheduling-v1"
TROUBLE = "test/Trouble-v0"
PLAIN, _, WAIT, RELEASE, _ = range(5)  # actions of test/Trouble-v0


def test_the_first_rows_that_are_ready(trouble_url: str) -> None:
    """Worked by hand: an observation is the number of steps of the episode, and row 0 waits for the second of row 2."""
    with VectorEnv(TROUBLE, 3, url=trouble_url) as envs:
        envs.reset(seed=1)
        envs.send(np.array([WAIT, PLAIN, PLAIN]))
        obs, rewards, terminations, truncations, infos = envs.recv(2)
        assert infos["env_id"].tolist() == [1, 2]
        assert obs.tolist() == [[1], [1]]
        assert rewards.tolist() == [1, 1]
        assert terminations.tolist() == truncations.tolist() == [False, False]
        assert infos["action_mask"].shape == (2, 5)
        none = envs.recv(3, timeout=0)
        assert none[0].shape == (0, 1)
        assert none[4]["env_id"].tolist() == []
        envs.send([RELEASE], [2])
        obs, _, _, _, infos = envs.recv(3)  # only two are pending
        assert infos["env_id"].tolist() == [0, 2]
        assert obs.tolist() == [[1], [2]]
        assert envs.step(np.zeros(3, np.int64))[0].tolist() == [[2], [2], [3]]
        assert envs.vector.stats()["steps"] == 7


def test_how_many_rows(trouble: Server) -> None:
    """`recv(k)` returns k rows though more are ready, and `most` all of them; order within a reply is that of rows."""
    with VectorEnv(TROUBLE, 4, url=trouble.ws_url) as envs:
        envs.reset(seed=1)
        envs.send([PLAIN, PLAIN, PLAIN], [3, 0, 2])
        first = envs.recv()[4]["env_id"].tolist()
        second = envs.recv(2, most=4)[4]["env_id"].tolist()
        assert len(first) == 1
        assert sorted(first + second) == [0, 2, 3]
        assert second == sorted(second)


def info_of(infos: dict[str, Any], i: int) -> dict[str, Any]:
    """Returns what infos say of row i."""
    return {
        key: info_of(part, i) if isinstance(part, dict) else part[i]
        for key, part in infos.items()
        if key[0] != "_" and key != "env_id" and infos["_" + key][i]
    }


def hashed(value: Any) -> str:
    digest = Digest()
    digest.add(value)
    return digest.hex()


def rows_of(step: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Returns what a step returned, row by row."""
    return [(*(pick(part, i) for part in step[:4]), info_of(step[4], i)) for i in range(len(step[1]))]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize(("env_id", "options"), [(CARTPOLE, {}), (GANG, {"steps": 10}), (MASKED, {})])
def test_rows_equal_those_of_lock_step(url: str, mode: str, env_id: str, options: dict[str, int]) -> None:
    """Whatever is sent and received when, each environment's trajectory is that of `step`, to the last bit."""
    n, steps = 4, 60
    actions = np.random.default_rng(0).integers(0, 2, (steps, n))
    make = lambda: gymnasium.make_vec(env_id, n, url=url, autoreset_mode=mode, **options)  # noqa: E731
    with make() as envs, make() as lock:
        envs.reset(seed=11)
        lock.reset(seed=11)
        want: list[list[Any]] = [[] for _ in range(n)]
        for t in range(steps):
            for i, row in enumerate(rows_of(lock.step(actions[t]))):
                want[i].append(row)
        rng, taken, idle, pending = np.random.default_rng(1), [0] * n, set(range(n)), 0
        got: list[list[Any]] = [[] for _ in range(n)]
        masks = lock.action_masks() if lock.vector.mask_size else None
        while True:
            some = [i for i in rng.permutation(sorted(idle)) if taken[i] < steps and rng.integers(2)]
            if some:
                envs.send(np.array([actions[taken[i], i] for i in some]), some)
            for i in some:
                taken[i] += 1
            idle -= set(some)
            pending += len(some)
            if pending:
                step = envs.recv(int(rng.integers(1, n + 1)))
                rows = step[4]["env_id"].tolist()
                for i, row in zip(rows, rows_of(step), strict=True):
                    got[i].append(row)
                idle |= set(rows)
                pending -= len(rows)
            elif min(taken) == steps:
                break
        assert [len(rows) for rows in got] == [steps] * n
        assert hashed(got) == hashed(want)
        if masks is not None:
            assert masks.all() == (env_id != MASKED)
            np.testing.assert_array_equal(envs.action_masks(), masks)


def test_mistakes(trouble: Server) -> None:
    with VectorEnv(TROUBLE, 3, url=trouble.ws_url) as envs:
        with pytest.raises(errors.ResetNeededError):
            envs.send(np.zeros(3, np.int64))
        envs.reset(seed=1)
        with pytest.raises(gymnasium.error.NoAsyncCallError, match="no step is pending"):
            envs.recv()
        for actions, rows in [([0, 0], None), ([0], [0, 1]), ([0.5], [0]), ([9], [0])]:
            with pytest.raises(errors.InvalidActionError):
                envs.send(actions, rows)
        with pytest.raises(errors.InvalidActionError, match=r"such as \[0, 2\]"):
            envs.send([0], 0)
        with pytest.raises(errors.InvalidArgumentError, match="3"):
            envs.send([0], [3])
        with pytest.raises(errors.InvalidArgumentError, match="min 4"):
            envs.recv(4)
        envs.send([WAIT], [1])
        with pytest.raises(errors.PendingStepError):
            envs.send([0, 0], [0, 1])
        for call in (lambda: envs.step([0, 0, 0]), envs.reset, envs.snapshot, lambda: envs.policy("random")):
            with pytest.raises(gymnasium.error.AlreadyPendingCallError, match="recv"):
                call()
        envs.send([RELEASE], [0])
        assert envs.recv(2)[4]["env_id"].tolist() == [0, 1]


def test_an_older_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a session of 1.3 the error says what is missing, and since when it exists."""
    monkeypatch.setattr(connection_module, "VERSION", (1, 3))
    with connect(server.url) as connection:
        assert tuple(connection.version) == (1, 3)
        vector = Vector(connection, CARTPOLE, 2)
        vector.reset(seed=1)
        for call, part in [
            (lambda: vector.send(np.zeros(2, np.int64)), "async"),
            (vector.recv, "async"),
            (lambda: Vector(connection, CARTPOLE, env_error=True), "env_error"),
            (lambda: Vector(connection, CARTPOLE, obs_keys=["x"]), "obs_keys"),
        ]:
            with pytest.raises(
                NotImplementedError, match=rf"speaks kubernasium.v1 1\.3, which has no {part}; want 1\.5"
            ):
                call()
        vector.step(np.zeros(2, np.int64))


def test_rows_wait_over_a_cut_wire(trouble: Server) -> None:
    with connect(trouble.ws_url) as connection:
        vector = Vector(connection, TROUBLE, 2)
        vector.reset(seed=1)
        vector.send([PLAIN, PLAIN])
        sid = connection.sid
        connection.transport.sock.shutdown(socket.SHUT_RDWR)
        assert vector.recv(2)["obs"].tolist() == [[1], [1]]
        assert connection.sid == sid


def test_a_new_server_cannot_rebuild_them(trouble: Server) -> None:
    """Until a reset of all with seeds, which begins the journal anew."""
    with connect(trouble.url) as connection:
        vector = Vector(connection, CARTPOLE, 2)
        vector.reset(seed=1)
        vector.send(np.array([0, 1]))
        vector.recv(2)
        log = connection.journal.logs[vector.eid]
        with pytest.raises(CannotRebuildError, match="`send`"):
            list(log.entries())
        vector.reset(seed=2)
        assert len(list(log.entries())) == 2  # make and reset


def test_rows_of_a_connection(connection: Connection) -> None:
    """In terms of the protocol: without `most` all rows that are ready."""
    vector = Vector(connection, CARTPOLE, 3, autoreset="SAME_STEP")
    vector.reset(seed=3)
    vector.send(np.array([1, 0]), np.array([2, 0]))
    reply = vector.recv(2)
    assert reply["idx"].tolist() == [0, 2]
    assert reply["obs"].shape == (2, 4)
