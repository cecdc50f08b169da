"""Interrupted requests are cancelled at the server, and the session continues."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubernasium import aio, errors
from kubernasium.env import Env
from kubernasium.launcher import Server
from kubernasium.protocol import Connection, Vector, connect, encode
from kubernasium.sb3 import VecEnv
from kubernasium.vector import VectorEnv

CARTPOLE = "classic/CartPole-v1"
TROUBLE = "test/Trouble-v0"
PLAIN, _, WAIT, RELEASE, _ = range(5)  # actions of test/Trouble-v0
TIMEOUT = 30.0  # seconds for each reply. A request behind a wait that is not cancelled takes longer.


class Waits:
    """Tells when a step that waits has begun: one that is cancelled before needs no reset."""

    def __init__(self, server: Server) -> None:
        self._log, self._before = server.log, 0
        self._before = self._count()

    def _count(self) -> int:
        return self._log.read_text().count("a step waits")

    def one_more(self) -> bool:
        """Reports whether one has begun since this object was made."""
        return self._count() > self._before


def interrupt(
    connection: Connection,
    call: Callable[[], Any],
    begun: Callable[[], bool] = lambda: True,
    after: Callable[[], Any] | None = None,
) -> None:
    """Calls, and sends SIGINT once a request of the call has been under way for a while.

    Args:
        connection: of the request.
        call: what to interrupt.
        begun: reports whether the server carries out the request.
        after: is called a while after the interrupt, by another thread.
    """
    before = connection._id

    def send() -> None:
        end = time.monotonic() + TIMEOUT
        while connection._id == before or not begun():
            if time.monotonic() > end:
                return  # the call has failed
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
        if after is not None:
            time.sleep(0.2)
            after()

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    thread.join()


MAKERS: list[Callable[..., Any]] = [
    lambda url: Env(TROUBLE, url=url, timeout=TIMEOUT),
    lambda url: VectorEnv(TROUBLE, 2, url=url, timeout=TIMEOUT),
    lambda url: VecEnv(TROUBLE, 2, url=url, timeout=TIMEOUT),
]


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("make", MAKERS, ids=["env", "vector", "sb3"])
def test_interrupted_steps(make: Callable[..., Any], trouble: Server, trouble_url: str) -> None:
    """A step that would never end: it is cancelled, the environment asks for a reset, and the session is the same."""
    with make(trouble_url) as env:
        connection = env.vector.connection
        sid = connection.sid
        env.reset()
        action = PLAIN if isinstance(env, Env) else np.array([PLAIN, PLAIN])
        for _ in range(2):
            interrupt(connection, lambda: env.step(action + WAIT), Waits(trouble).one_more)
            with pytest.raises(errors.ResetNeededError):
                env.step(action)
            obs = env.reset()
            assert np.asarray(obs if isinstance(env, VecEnv) else obs[0]).max() == 0
            assert np.asarray(env.step(action)[0]).min() == 1
        assert connection.sid == sid
        assert not connection.cancelled
        assert not connection.outstanding


@pytest.mark.usefixtures("interrupts")
def test_interrupted_step_wait(trouble_url: str) -> None:
    """With a time limit the wait is another one, of `poll`."""
    with VectorEnv(TROUBLE, 2, url=trouble_url, timeout=TIMEOUT) as envs:
        envs.reset()
        envs.step_async([WAIT, PLAIN])
        thread = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            envs.step_wait(timeout=TIMEOUT)
        thread.join()
        assert envs.reset()[0].tolist() == [[0], [0]]


@pytest.mark.usefixtures("interrupts")
def test_interrupted_rollout(server: Server) -> None:
    """One that would take minutes."""
    with connect(server.url, timeout=TIMEOUT) as connection:
        vector = Vector(connection, "k8s/GPUPodScheduling-v0", 64)
        vector.reset(seed=1)
        interrupt(connection, lambda: vector.rollout("FGD", steps=16000))
        assert vector.stats()["steps"] < 64 * 16000
        vector.reset(seed=1)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_recv_loses_no_row(trouble_url: str) -> None:
    with VectorEnv(TROUBLE, 3, url=trouble_url, timeout=TIMEOUT) as envs:
        envs.reset(seed=1)
        envs.send([WAIT, PLAIN, PLAIN])
        interrupt(envs.vector.connection, lambda: envs.recv(3))
        envs.send([], [])
        obs, _, _, _, infos = envs.recv(2)
        assert infos["env_id"].tolist() == [1, 2]
        assert obs.tolist() == [[1], [1]]
        interrupt(envs.vector.connection, envs.recv)
        envs.send([RELEASE], [1])
        obs, _, _, _, infos = envs.recv(2)
        assert infos["env_id"].tolist() == [0, 1]
        assert obs.tolist() == [[1], [2]]


@pytest.mark.usefixtures("interrupts")
def test_rows_that_come_during_the_interrupt_are_kept(trouble: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come within the time that a request has before it is cancelled; the next `recv` returns them."""
    monkeypatch.setattr("kubernasium.protocol.connection.GRACE", 20.0)
    with VectorEnv(TROUBLE, 2, url=trouble.ws_url) as envs, VectorEnv(TROUBLE, 1, url=trouble.ws_url) as other:
        envs.reset(seed=1)
        other.reset(seed=1)
        envs.send([WAIT], [1])
        interrupt(envs.vector.connection, envs.recv, after=lambda: other.step([RELEASE]))
        envs.send([PLAIN], [0])
        assert envs.recv(2)[4]["env_id"].tolist() == [1]
        assert envs.recv(2)[4]["env_id"].tolist() == [0]
        envs.send([PLAIN], [1])  # and a reset makes them void
        envs.vector._interrupted = keep_reply(envs.vector)
        assert envs.reset(seed=1)[0].tolist() == [[0], [0]]
        envs.send([PLAIN], [0])
        obs, _, _, _, infos = envs.recv(2)
        assert infos["env_id"].tolist() == [0]
        assert obs.tolist() == [[1]]


def keep_reply(vector: Vector) -> int:
    """Receives rows as an interrupted `recv` does, and returns the id of the request."""
    connection = vector.connection
    with connection.lock:
        rid = connection.next_id()
        connection.send(encode({"t": "recv", "id": rid, "eid": vector.eid}), rid)
        connection.expect(rid)
    assert connection.poll(rid, TIMEOUT)
    return rid


def test_cancelled_by_the_server_or_by_this_client(trouble: Server) -> None:
    """CANCELLED is the end of the server only where this client has cancelled nothing."""
    with connect(trouble.ws_url) as connection:
        vector = Vector(connection, TROUBLE)
        vector.reset(seed=1)
        stopping = errors.UnavailableError("", {"code": "CANCELLED", "reason": "CANCELLED"})
        connection.cancelled.add(7)
        assert not connection._stops(7, stopping)
        assert connection.cut is None
        assert connection._stops(8, stopping)
        assert connection.cut is stopping


@pytest.mark.usefixtures("interrupts")
def test_without_resuming(trouble: Server) -> None:
    """Where no reply is waited for, the one to a cancelled request is dropped all the same."""
    with connect(trouble.url, timeout=TIMEOUT, reconnect=0) as connection:
        vector = Vector(connection, TROUBLE)
        vector.reset(seed=1)
        interrupt(connection, lambda: vector.step([WAIT]))
        assert vector.reset(seed=1)["obs"].tolist() == [[0]]
        assert not connection.cancelled


@pytest.mark.usefixtures("interrupts")
def test_a_lost_session_after_an_interrupt(trouble: Server) -> None:
    """A new session takes the steps before the cancelled one, which nobody awaits: it is not repeated."""
    with connect(trouble.ws_url, timeout=TIMEOUT) as connection:
        vector = Vector(connection, TROUBLE)
        vector.reset(seed=1)
        vector.step([PLAIN])
        interrupt(connection, lambda: vector.step([WAIT]))
        connection.token = "0" * len(connection.token)
        connection.transport.sock.shutdown(socket.SHUT_RDWR)
        assert vector.step([PLAIN])["obs"].tolist() == [[2]]
        assert not connection.cancelled


@pytest.mark.usefixtures("interrupts")
def test_a_cut_wire_after_an_interrupt(trouble: Server) -> None:
    """Whether the cancelled step was taken is unknown, so nothing is rebuilt before the next reset with seeds."""
    with connect(trouble.ws_url, timeout=TIMEOUT) as connection:
        vector = Vector(connection, TROUBLE)
        vector.reset(seed=1)
        interrupt(connection, lambda: vector.step([WAIT]), Waits(trouble).one_more)
        assert connection.cancelled
        connection.transport.sock.shutdown(socket.SHUT_RDWR)
        with pytest.raises(errors.ResetNeededError):
            vector.step([PLAIN])
        assert not connection.cancelled
        assert connection.journal.logs[vector.eid].lost
        vector.reset(seed=1)
        assert not connection.journal.logs[vector.eid].lost


def run(main: Any) -> Any:
    """Runs main; what hangs fails."""
    return asyncio.run(asyncio.wait_for(main, 300))


def test_cancelled_tasks_end_at_the_server(trouble: Server, trouble_url: str) -> None:
    """A step that would never end, and one that waits behind it: the first is cancelled, the second is carried out."""

    async def main() -> None:
        async with aio.connect(trouble_url, timeout=TIMEOUT) as connection:
            victim, other = await connection.make(TROUBLE), await connection.make(TROUBLE)
            await victim.reset()
            await other.reset()
            waits, task = Waits(trouble), asyncio.create_task(victim.step(WAIT))
            while not waits.one_more():
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await other.step(PLAIN))[0].tolist() == [1]
            with pytest.raises(errors.ResetNeededError):
                await victim.step(PLAIN)
            assert (await victim.reset())[0].tolist() == [0]
            assert (await victim.step(PLAIN))[0].tolist() == [1]
            await connection.request("ping")
            assert not connection._replies
            assert connection._slots._value == connection.limits["inflight"]

    run(main())


def test_a_cancelled_task_whose_request_ends_soon(trouble_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was carried out."""
    monkeypatch.setattr("kubernasium.aio_session.GRACE", TIMEOUT)

    async def main() -> None:
        async with aio.make(TROUBLE, url=trouble_url) as victim, aio.make(TROUBLE, url=trouble_url) as other:
            await victim.reset()
            await other.reset()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(victim.step(WAIT), 0.1)
            await asyncio.sleep(0.1)
            await other.step(RELEASE)
            assert (await victim.step(PLAIN))[0].tolist() == [2]

    run(main())


def test_a_cancelled_recv_loses_no_row(trouble_url: str) -> None:
    async def main() -> None:
        async with aio.make(TROUBLE, 3, url=trouble_url, timeout=TIMEOUT) as envs:
            await envs.reset(seed=1)
            await envs.send([WAIT, PLAIN, PLAIN])
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(envs.recv(3), 0.1)
            obs, _, _, _, infos = await envs.recv(2)
            assert infos["env_id"].tolist() == [1, 2]
            assert obs.tolist() == [[1], [1]]
            # Rows that come before the cancelled request is cancelled at the server.
            async with aio.make(TROUBLE, 1, url=trouble_url) as other:
                await other.reset()
                task = asyncio.create_task(envs.recv())
                await asyncio.sleep(0.1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await other.step([RELEASE])
                assert (await envs.recv())[4]["env_id"].tolist() == [0]
            # A reset makes such rows void.
            await envs.send([PLAIN], [1])
            request = await envs.connection.begin("recv", eid=envs.eid)
            await envs.connection.finish(request)
            envs._interrupted.append(request)
            await envs.reset(seed=1)
            await envs.send([PLAIN], [2])
            assert (await envs.recv())[4]["env_id"].tolist() == [2]

    run(main())
