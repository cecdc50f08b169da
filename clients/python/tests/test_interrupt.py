"""Ctrl-C in the middle of calls: nothing is lost but the result of the call that it interrupts."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from kubernasium.protocol import Connection, Vector, decode, encode
from kubernasium.protocol.transport import START, StreamTransport
from kubernasium.protocol.websocket import WebSocketTransport
from kubernasium.sb3 import VecEnv

GANG = "k8s/GangWindow-v0"
ROUNDS = 40


pytestmark = pytest.mark.usefixtures("interrupts")


def until_interrupt(delay: float, call: Callable[[], None]) -> None:
    """Calls again and again until a SIGINT comes, after delay seconds."""
    came = threading.Event()

    def send() -> None:
        time.sleep(delay)
        while not came.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            came.wait(10)  # Python drops an exception that is raised in a finalizer, and then another signal comes

    try:
        threading.Thread(target=send).start()
        while True:
            call()
    except KeyboardInterrupt:
        came.set()


def plain(value: Any) -> Any:
    """Returns nested arrays as bytes, to be compared to the last bit."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if key not in ("episode", "final_obs")}
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets an interrupted step end, however slow the machine: one that is cancelled needs a reset."""
    monkeypatch.setattr("kubernasium.protocol.connection.GRACE", 60.0)


def disturb(env: Any, twin: Any, vector: Callable[[Any], Vector], action: Callable[[int], Any], limit: int) -> None:
    """Interrupts env at random moments and compares it with its undisturbed twin.

    The twin takes the steps that the server counts for env, of which the interrupted one may be
    the last. Whatever env returns, before the interrupt and after it, the twin returns too.

    Args:
        env: an environment that was reset.
        twin: another one that was reset with the same seed.
        vector: returns the vector of env or twin.
        action: returns the action of a step by its number.
        limit: steps to take in a round.
    """
    rng = np.random.default_rng(1)
    n = vector(env).num_envs
    for _ in range(ROUNDS):
        first = taken = vector(env).stats()["steps"] // n
        got: list[Any] = []

        def call(first: int = first, got: list[Any] = got) -> None:
            if len(got) < limit:
                got.append(plain(env.step(action(first + len(got)))))
            else:
                vector(env).connection.request("ping")

        until_interrupt(rng.uniform(0, 0.005), call)
        taken = vector(env).stats()["steps"] // n
        assert len(got) <= taken - first <= len(got) + 1
        want = [plain(twin.step(action(t))) for t in range(first, taken)]
        assert got == want[: len(got)]
        for t in range(taken, taken + 2):
            assert plain(env.step(action(t))) == plain(twin.step(action(t)))
    for count in ("steps", "resets", "episodes"):
        assert vector(env).stats()[count] == vector(twin).stats()[count]


@pytest.mark.usefixtures("patient")
def test_env(url: str) -> None:
    with gymnasium.make(GANG, url=url, steps=4000) as env, gymnasium.make(GANG, url=url, steps=4000) as twin:
        env.reset(seed=5)
        twin.reset(seed=5)
        disturb(env.unwrapped, twin.unwrapped, lambda e: e.vector, lambda t: t * 7 % 4, 4000 // ROUNDS - 4)
        np.testing.assert_array_equal(env.reset(seed=6)[0], twin.reset(seed=6)[0])


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("num_envs", "options"),
    [(3, {}), (400, {"windows": 20, "horizon": 20, "instances": 2})],
    ids=["short replies", "long replies"],
)
def test_vector(url: str, num_envs: int, options: dict[str, int]) -> None:
    """A long reply comes in many pieces."""
    actions = np.random.default_rng(0).integers(0, 4, (50, num_envs))
    make = lambda: gymnasium.make_vec(GANG, num_envs, url=url, autoreset_mode="SameStep", steps=30, **options)  # noqa: E731
    with make() as envs, make() as twin:
        envs.reset(seed=5)
        twin.reset(seed=5)
        disturb(envs, twin, lambda e: e.vector, lambda t: actions[t % 50], 10)


@pytest.mark.usefixtures("patient")
def test_sb3(url: str) -> None:
    with VecEnv(GANG, 3, seed=5, url=url, steps=30) as envs, VecEnv(GANG, 3, seed=5, url=url, steps=30) as twin:
        envs.reset()
        twin.reset()
        disturb(envs, twin, lambda e: e.vector, lambda t: np.full(3, t % 4), 50)


def test_long_requests(connection: Connection) -> None:
    """A request that the server did not get whole is sent on; none is sent twice."""
    rng = np.random.default_rng(2)
    ballast = bytes(4_000_000)
    for seen in range(ROUNDS):
        until_interrupt(rng.uniform(0, 0.01), lambda: connection.request("ping", ballast=ballast))
        assert connection.request("ping", ts=seen)["ts"] == seen
    assert not connection.closed


class Peer:
    """A server in this process, over a socket pair, whose writes the test decides."""

    def __init__(self, kind: type) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.transport = kind(self.ours, 20.0)
        self.stream = kind is StreamTransport

    def frame(self, message: dict[str, Any]) -> bytes:
        """Returns a message as a server sends it: in two fragments with a ping in between over WebSocket."""
        data = encode(message)
        if self.stream:
            return len(data).to_bytes(4, "little") + data
        return (
            bytes([0x02, 3])
            + data[:3]
            + bytes([0x89, 1, 120, 0x80, 126])
            + (len(data) - 3).to_bytes(2, "big")
            + data[3:]
        )


@pytest.mark.parametrize("kind", [StreamTransport, WebSocketTransport])
def test_partial_frames_are_kept(kind: type) -> None:
    """An interrupt in the midst of a frame; the next call gets all of it."""
    peer = Peer(kind)
    data = peer.frame({"t": "step.ok", "id": 3, "r": np.arange(20.0)})
    after = peer.frame({"t": "pong", "id": 4})
    for cut in [*range(26), *range(26, len(data), 29)]:  # through the headers, and through the rest
        if cut:
            peer.theirs.sendall(data[:cut])
        until_interrupt(0.001, peer.transport.recv)
        peer.theirs.sendall(data[cut:] + after)
        message = decode(memoryview(peer.transport.recv())[START:])
        np.testing.assert_array_equal(message["r"], np.arange(20.0))
        assert decode(memoryview(peer.transport.recv())[START:])["id"] == 4
        if not peer.stream:
            peer.theirs.recv(1 << 16)  # the pongs, for which there would be no room some time
    peer.transport.close()
    peer.theirs.close()
