"""Servers that are killed or replaced: the environments are rebuilt at the next one, to the last bit."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from chaos import (
    CARTPOLE,
    GANG,
    MAKERS,
    TO_INHERIT,
    WELCOME,
    Digest,
    connect_default,
    fake,
    inheriting,
    kill_default_server,
    play,
)
from kubernasium import errors
from kubernasium.launcher import Server, default_server
from kubernasium.protocol import Vector, connect, decode
from kubernasium.protocol import connection as connection_module
from kubernasium.protocol import journal as journal_module


@pytest.mark.parametrize("make", MAKERS, ids=["env", "masked env", "vector", "masked vector"])
def test_killed_servers(make: Callable[..., Any]) -> None:
    """A launched server that died is started again, with environments equal to the last bit."""
    with make() as undisturbed:
        want = play(undisturbed, 300)
    with make() as envs:
        pids = {default_server().pid}

        def kill(t: int) -> None:
            if t % 60 == 40:
                kill_default_server()
            pids.add(default_server().pid) if t % 60 == 45 else None

        assert play(envs, 300, kill) == want
        assert len(pids) == 6


def test_killed_between_a_request_and_its_reply() -> None:
    with gymnasium.make_vec(CARTPOLE, 4) as envs, gymnasium.make_vec(CARTPOLE, 4) as twin:
        for each in (envs, twin):
            each.reset(seed=1)
        for t in range(20):
            actions = np.arange(4) // (1 + t % 3) % 2
            envs.step_async(actions)
            want = twin.step(actions)
            if t % 5 == 2:
                kill_default_server()
            got = envs.step_wait()
            for one, other in zip(got[:4], want[:4], strict=True):
                np.testing.assert_array_equal(one, other, strict=True)


def test_killed_while_baselines_act_and_snapshots_are_kept() -> None:
    """Policies and snapshots are rebuilt, too, by every step since the first reset."""
    hashes = []
    for kills in (False, True):
        digest = Digest()
        with gymnasium.make_vec(GANG, 2, steps=20) as envs:
            digest.add(envs.reset(seed=3))
            digest.add(envs.policy("random", seed=7))
            snap = envs.snapshot()
            for t in range(12):
                digest.add(envs.step(policy="random") if t % 2 else envs.step(envs.policy("static_2")))
                if kills and t in (3, 8):
                    kill_default_server()
            digest.add(envs.reset(seed=4))
            digest.add(envs.rollout("random", steps=5).last)
            if kills:
                kill_default_server()
            digest.add(envs.restore(snap))
            digest.add(envs.fork(1, [0]))
            digest.add(envs.step(policy="random"))
        hashes.append(digest.hex())
    assert hashes[0] == hashes[1]


def test_seeds_that_the_server_drew() -> None:
    """A reset without a seed is repeated with the one that the server drew."""
    with gymnasium.make_vec(CARTPOLE, 3) as envs, gymnasium.make_vec(CARTPOLE, 3) as twin:
        vector = envs.vector
        vector.reset(seed=[1, None, 3], mask=np.array([True, False, False]))
        seed = vector.reset()["seed"]  # rows 1 and 2 get seed+i; row 0 continues its stream
        twin.vector.reset(seed=[1, None, 3], mask=np.array([True, False, False]))
        want = twin.vector.reset(seed=[None, seed + 1, seed + 2])["obs"]
        kill_default_server()
        action = np.array([0, 1, 0])
        got = vector.step(action)["obs"]
        np.testing.assert_array_equal(got, twin.vector.step(action)["obs"])
        assert want.shape == got.shape


def test_several_vectors_of_a_session() -> None:
    """With steps outstanding on two of them, and one that was closed."""
    with connect_default() as connection, connect_default() as other:
        closed, one, two = (Vector(connection, CARTPOLE, n) for n in (1, 2, 3))
        closed.reset(seed=0)
        closed_eid = closed.eid
        closed.close()
        twins = [Vector(other, CARTPOLE, n) for n in (2, 3)]
        for vector, twin in zip((one, two), twins, strict=True):
            np.testing.assert_array_equal(vector.reset(seed=8)["obs"], twin.reset(seed=8)["obs"])
        for t in range(9):
            for vector in (one, two):
                vector.step_async(np.full(vector.num_envs, t % 2))
            want = [twin.step(np.full(twin.num_envs, t % 2))["obs"] for twin in twins]
            if t % 3 == 1:
                kill_default_server()
            np.testing.assert_array_equal(two.step_wait()["obs"], want[1])
            np.testing.assert_array_equal(one.step_wait()["obs"], want[0])
        with pytest.raises(errors.NotFoundError, match="UNKNOWN_EID"):  # the closed one was closed again
            connection.request("stats", eid=closed_eid)


def test_killed_after_a_step_whose_reply_was_dropped() -> None:
    """As after Ctrl-C: the step counts, although nobody got its reply."""
    with gymnasium.make_vec(CARTPOLE, 2) as envs, gymnasium.make_vec(CARTPOLE, 2) as twin:
        for each in (envs, twin):
            each.reset(seed=6)
        first, second = np.array([1, 0]), np.array([0, 0])
        vector = envs.vector
        vector.step_async(first)
        vector.connection._expected.clear()  # what an interrupt of step_wait leaves
        vector._pending = 0
        twin.step(first)
        np.testing.assert_array_equal(envs.step(second)[0], twin.step(second)[0])
        assert not vector.connection.outstanding
        kill_default_server()
        np.testing.assert_array_equal(envs.step(first)[0], twin.step(first)[0])


def test_another_server_with_the_same_address() -> None:
    """As a Deployment starts one: the old one drains, and the next has its address."""
    with Server(args=TO_INHERIT) as first:
        url = first.ws_url
        envs, twin = (gymnasium.make_vec(CARTPOLE, 2, url=u) for u in (url, None))
        for each in (envs, twin):
            each.reset(seed=1)
    with Server(args=inheriting(url)):
        for _ in range(5):
            action = np.array([1, 0])
            np.testing.assert_array_equal(envs.step(action)[0], twin.step(action)[0])
        envs.close()
        twin.close()


@pytest.mark.parametrize("reason", ["DRAINING", "CANCELLED"])
def test_a_server_that_stops(reason: str) -> None:
    """It refuses the request, and its successor, which knows no session, carries it out."""
    asked: list[dict] = []

    def first(receive: Any, send: Any) -> None:
        send(WELCOME | {"id": receive()["id"]})
        asked.append(receive())
        send({"t": "err", "id": asked[0]["id"], "code": "UNAVAILABLE", "reason": reason, "msg": "the server stops"})
        receive_end(receive)

    def second(receive: Any, send: Any) -> None:
        asked.append(receive())
        send(WELCOME | {"id": asked[1]["id"], "sid": "next"})
        asked.append(receive())
        send({"t": "stats.ok", "id": asked[2]["id"], "steps": 4})

    with fake(first, second) as connection:
        assert connection.request("stats")["steps"] == 4
        assert connection.sid == "next"
    assert "resume" not in asked[1]
    assert asked[0] == asked[2]


def receive_end(receive: Callable[[], dict]) -> None:
    """Waits until the client has closed the connection."""
    with contextlib.suppress(struct.error):
        receive()


@pytest.mark.usefixtures("interrupts")
def test_interrupt_while_connecting_again() -> None:
    """Ctrl-C ends the waiting, and the next call begins it again."""
    with Server(args=TO_INHERIT) as first:
        url = first.ws_url
        vector = Vector(connect(url), CARTPOLE)
        obs = vector.reset(seed=3)["obs"]
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        vector.step(np.zeros(1, np.int64))
    timer.join()
    with Server(args=inheriting(url)):
        np.testing.assert_array_equal(vector.reset(seed=3)["obs"], obs)
        vector.connection.close()


def test_sb3_training_survives_kills() -> None:
    """The parameters equal those of an undisturbed training, to the last bit."""
    import stable_baselines3 as sb3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    from kubernasium.sb3 import VecEnv

    class Kill(BaseCallback):
        at: Iterator[int] = iter(())

        def _on_step(self) -> bool:
            if self.n_calls in (20, 77, 140):
                kill_default_server()
            return True

    torch.set_num_threads(1)  # several wait for each other on a busy machine
    parameters = []
    for callback in (None, Kill()):
        with VecEnv(GANG, 4, seed=2, steps=20) as envs:
            model = sb3.PPO("MlpPolicy", envs, n_steps=64, batch_size=64, n_epochs=2, seed=1, device="cpu")
            model.learn(4 * 64 * 3, callback=callback)
        parameters.append(model.get_parameters()["policy"])
    assert all((parameters[0][key] == parameters[1][key]).all() for key in parameters[0])
    assert len(parameters[0]) == len(parameters[1]) > 0
    assert list(itertools.islice(parameters[0], 1))


@pytest.mark.parametrize("make", MAKERS, ids=["env", "masked env", "vector", "masked vector"])
def test_states_are_restored(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a state after about each tenth request, kills change no bit, and few requests are repeated."""
    monkeypatch.setattr(journal_module, "STATE_EVERY", 0.0)
    monkeypatch.setattr(journal_module, "SHARE", 0)
    with make() as undisturbed:
        want = play(undisturbed, 300)
    lengths, states = [], []
    with make() as envs:
        log = envs.vector._log

        def kill(t: int) -> None:
            log.wait = 0.0 if t % 10 == 0 else math.inf  # a state after this step, and after none of the next ones
            if t % 60 == 40:
                kill_default_server()
            if t > 10:
                kinds = [decode(entry.frame)["t"] for entry in log.entries()]
                assert kinds[1] in ("load", "reset")  # with a seed
                lengths.append(len(kinds))
                states.append(kinds[1] == "load")

        assert play(envs, 300, kill) == want
    assert max(lengths) < 2 + 20  # at most ten steps and their resets since
    assert sum(states) > 100


def test_a_state_after_a_second_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector is asked for its state when it is due, and not after a baseline has acted."""
    clock = itertools.count()
    monkeypatch.setattr("kubernasium.protocol.vector.perf_counter", lambda: next(clock) / 1000)  # not a busy machine's
    with connect_default() as connection:
        vector = Vector(connection, CARTPOLE, 2)
        log = vector._log
        assert log is not None

        def step() -> list[str]:
            vector.step(np.zeros(2, np.int64))
            return [decode(entry.frame)["t"] for entry in log.entries()]

        vector.reset(seed=1)
        assert step() == ["make", "reset", "step"]
        log.cost = journal_module.STATE_EVERY
        assert step() == ["make", "load"]
        assert log.cost == 0
        log.wait = 5.0  # states are dear
        log.cost = 4.0
        assert step() == ["make", "load", "step"]
        log.cost = 5.0
        assert step() == ["make", "load"]
        assert journal_module.STATE_EVERY <= log.wait < 5
        monkeypatch.setattr(journal_module, "STATE_BYTES", 1)
        monkeypatch.setattr(journal_module, "_CHUNK", 1)
        log.asked(0.0)
        assert step() == ["make", "load"]  # after so many bytes
        vector.policy("random")
        log.cost = 9.0
        assert step() == ["make", "load", "policy", "step"]
        assert log.cost > 9.0  # nobody asked


def test_states_end_what_was_torn() -> None:
    """Steps by `send` cannot be repeated, and a state after them can."""
    with gymnasium.make_vec(CARTPOLE, 2) as envs, gymnasium.make_vec(CARTPOLE, 2) as twin:
        action = np.array([1, 0])
        for each in (envs, twin):
            each.reset(seed=6)
        envs.send([0, 1], action)
        envs.recv(2)
        twin.step(action)
        log = envs.vector._log
        assert log.lost
        log.cost = math.inf
        np.testing.assert_array_equal(envs.step(action)[0], twin.step(action)[0])
        assert not log.lost
        kill_default_server()
        np.testing.assert_array_equal(envs.step(action)[0], twin.step(action)[0])


def test_old_servers_have_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a server of 1.6 the requests alone rebuild the environments."""
    monkeypatch.setattr(connection_module, "VERSION", (1, 6))
    monkeypatch.setattr(journal_module, "STATE_EVERY", 0.0)
    with gymnasium.make_vec(CARTPOLE, 3) as undisturbed:
        want = play(undisturbed, 90)
    with gymnasium.make_vec(CARTPOLE, 3) as envs:
        assert play(envs, 90, lambda t: kill_default_server() if t == 60 else None) == want
        assert len(list(envs.vector._log.entries())) > 90
