"""Sessions that outlive their connection, and environments that outlive their server."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from chaos import CuttingProxy, Digest
from kubernasium import errors
from kubernasium.launcher import Server, default_server
from kubernasium.protocol import Connection, Vector, connect, decode, encode
from kubernasium.protocol import journal as journal_module
from kubernasium.protocol.journal import CannotRebuildError, Log, checksum
from kubernasium.protocol.transport import START, StreamTransport

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"


def kill_default_server() -> None:
    """Kills the server that this process launched, as the kernel does when memory is short."""
    os.kill(default_server().pid, signal.SIGKILL)


def play(envs: Any, steps: int, before: Callable[[int], None] = lambda t: None) -> str:
    """Returns the hash of a trajectory, with resets of all kinds in it.

    Args:
        envs: an `Env` or a `VectorEnv`.
        steps: how many to take.
        before: called before each step.
    """
    digest, rng = Digest(), np.random.default_rng(2)
    digest.add(envs.reset(seed=5))
    for t in range(steps):
        before(t)
        n = getattr(envs, "num_envs", 0)
        action = rng.integers(0, 2, n) if n else int(rng.integers(0, 2))
        step = envs.step(action)
        digest.add(step)
        if not n and (step[2] or step[3]):
            digest.add(envs.reset(seed=t if t % 3 == 0 else None))
        if n and t % 50 == 30:
            digest.add(envs.reset(options={"reset_mask": np.arange(n) == t % n}))
    return digest.hex()


MAKERS = [
    lambda **kw: gymnasium.make(CARTPOLE, **kw).unwrapped,
    lambda **kw: gymnasium.make(GANG, steps=20, **kw).unwrapped,
    lambda **kw: gymnasium.make_vec(CARTPOLE, 3, autoreset_mode="SameStep", **kw),
    lambda **kw: gymnasium.make_vec(GANG, 2, steps=20, **kw),
]


@pytest.mark.parametrize("make", MAKERS, ids=["env", "masked env", "vector", "masked vector"])
def test_cut_wires(make: Callable[..., Any], server: Server) -> None:
    """A hundred cuts anywhere in the stream: no step is lost or taken twice."""
    steps = 1500
    with make(url=server.ws_url) as undisturbed:
        want = play(undisturbed, steps)
        counted = undisturbed.vector.stats()
    with CuttingProxy(server.ws_url, 2500, 100) as proxy, make(url=proxy.url) as envs:
        assert play(envs, steps) == want
        assert proxy.cuts == 100
        got = envs.vector.stats()
        assert {key: got[key] for key in ("steps", "resets", "episodes")} == {
            key: counted[key] for key in ("steps", "resets", "episodes")
        }


@pytest.mark.parametrize("make", MAKERS, ids=["env", "masked env", "vector", "masked vector"])
def test_killed_servers(make: Callable[..., Any]) -> None:
    """The launched server is started again, and the environments are what they were, to the last bit."""
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
    """What no reset begins anew is repeated from the start."""
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


def connect_default() -> Connection:
    from kubernasium.launcher import open_connection

    return open_connection()


def test_lost_replies_of_several_requests(server: Server) -> None:
    """A server keeps the last reply only; after a cut the environments are rebuilt where more are missing."""
    with connect(server.ws_url) as connection, connect(server.url) as other:
        pair, twins = ([Vector(each, CARTPOLE, 2) for _ in range(2)] for each in (connection, other))
        for vectors in (pair, twins):
            for i, vector in enumerate(vectors):
                vector.reset(seed=i)
        sids = set()
        for t in range(12):
            actions = np.array([t % 2, t // 2 % 2])
            for vector in pair:
                vector.step_async(actions)
            want = [twin.step(actions)["obs"] for twin in twins]
            if t % 4 == 1:
                lost = connection.transport
                while len(lost.sock.recv(1 << 16, socket.MSG_PEEK)) < 2 * lost._expect:
                    pass
                lost.abandon()  # with both replies unread
                sids.add(connection.sid)
            for vector, obs in zip(pair, want, strict=True):
                np.testing.assert_array_equal(vector.step_wait()["obs"], obs)
        assert len(sids) == 3  # a new session after each loss


def test_off() -> None:
    """A reconnect of 0 leaves a lost connection to the caller."""
    with gymnasium.make_vec(CARTPOLE, 2, reconnect=0) as envs:
        envs.reset(seed=1)
        kill_default_server()
        with pytest.raises(errors.ConnectionLostError, match="signal 9"):
            envs.step(np.zeros(2, np.int64))
        envs.reset(seed=1)


def test_bounded_in_time() -> None:
    """Where no server comes back, the client gives up, and `reset` works once one is there."""
    with Server(args=["--listen", "127.0.0.1:0"]) as stopped:
        envs = gymnasium.make_vec(CARTPOLE, 2, url=stopped.ws_url, reconnect=0.3)
        envs.reset(seed=1)
    with pytest.raises(errors.ConnectionLostError, match="connecting again"):
        envs.step(np.zeros(2, np.int64))
    with pytest.raises(errors.ConnectionLostError, match="`reset` connects again"):
        envs.step(np.zeros(2, np.int64))


def test_another_server_with_the_same_address() -> None:
    """As a Deployment starts one: the old one drains, and the next has its address."""
    with Server(args=["--listen", "127.0.0.1:0"]) as first:
        url = first.ws_url
        envs, twin = (gymnasium.make_vec(CARTPOLE, 2, url=u) for u in (url, None))
        for each in (envs, twin):
            each.reset(seed=1)
    port = url.split(":")[2].split("/")[0]
    with Server(args=["--listen", f"127.0.0.1:{port}"]):
        for _ in range(5):
            action = np.array([1, 0])
            np.testing.assert_array_equal(envs.step(action)[0], twin.step(action)[0])
        envs.close()
        twin.close()


@pytest.mark.parametrize("what", ["token", "session", "lease"])
def test_unknown_session(what: str) -> None:
    """A wrong token, an unknown session and a lease that is over: the environments are rebuilt."""
    args = ["--listen", "127.0.0.1:0"] + (["--lease", "1ms"] if what == "lease" else [])
    with Server(args=args) as server, connect(server.ws_url) as connection, connect(server.url) as other:
        vector, twin = Vector(connection, CARTPOLE, 2), Vector(other, CARTPOLE, 2)
        np.testing.assert_array_equal(vector.reset(seed=1)["obs"], twin.reset(seed=1)["obs"])
        sid = connection.sid
        assert connection.token
        if what == "token":
            connection.token = "0" * len(connection.token)
        elif what == "session":
            connection.sid = "none"
        connection.transport.sock.shutdown(socket.SHUT_RDWR)
        if what == "lease":
            with connect(server.ws_url, reconnect=0) as probe:
                wait_for_end_of_lease(probe, other)
        actions = np.array([0, 1])
        np.testing.assert_array_equal(vector.step(actions)["obs"], twin.step(actions)["obs"])
        assert connection.sid != sid


def wait_for_end_of_lease(probe: Connection, other: Connection) -> None:
    """Waits until a lease of a millisecond must be over: some hundred round trips, and the time itself."""
    for _ in range(300):
        probe.request("ping")
        other.request("ping")
    threading.Event().wait(0.2)


def test_a_lease_that_stands_is_resumed(server: Server) -> None:
    with connect(server.ws_url) as connection:
        vector = Vector(connection, CARTPOLE, 2)
        vector.reset(seed=1)
        sid = connection.sid
        connection.transport.sock.shutdown(socket.SHUT_RDWR)
        assert vector.stats()["resets"] == 1
        assert connection.sid == sid


def test_what_cannot_be_rebuilt() -> None:
    """Environments that are not deterministic, requests beyond the bound, and a server that replies otherwise."""
    with connect_default() as connection:
        vector = Vector(connection, CARTPOLE)
        connection.journal.logs[vector.eid]._repeats = False
        connection.journal.logs[vector.eid].forget()
        kill_default_server()
        with pytest.raises(CannotRebuildError, match="not deterministic"):
            vector.reset(seed=1)
    with connect_default() as connection:
        vector = Vector(connection, CARTPOLE)
        vector.reset(seed=1)
        log = connection.journal.logs[vector.eid]
        log.restart()
        log.accepted(connection.next_id(), encode({"t": "reset", "id": connection._id, "eid": 1, "seed": 2}), b"x" * 99)
        log._tail[4 + 8 : 4 + 12] = struct.pack("<I", 77)
        kill_default_server()
        with pytest.raises(CannotRebuildError, match="replies otherwise"):
            vector.step(np.zeros(1, np.int64))


def test_the_journal_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a log holds nothing, until a reset of all with seeds."""
    monkeypatch.setattr(journal_module, "MOST", 1 << 20)
    log = Log(1, b"make", {"eid": 1, "n": 1, "spec": {}})
    rng = np.random.default_rng(0)
    added = 0
    while not log.lost:
        log.accepted(2 + added, rng.bytes(1 << 16), bytearray(START))
        added += 1
    assert 16 <= added <= 24  # random bytes of 64 KiB do not shrink, and are packed by 256 KiB
    assert not log._packed
    with pytest.raises(CannotRebuildError, match="MiB"):
        list(log.entries())
    log.restart()
    log.add(99, b"reset", 0)
    assert [entry.frame for entry in log.entries()] == [b"make", b"reset"]


def test_steps_take_few_bytes_in_the_journal() -> None:
    """A hundred thousand steps of one environment, whose frames have 40 bytes, take less than 12 bytes each."""
    log = Log(1, b"make", {"eid": 1, "n": 1, "spec": {}})
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=100_000).tolist()
    frames = [encode({"t": "step", "id": (1 << 32) + t, "eid": 1, "a": action}) for t, action in enumerate(actions)]
    for t, frame in enumerate(frames):
        log.accepted((1 << 32) + t, frame, bytearray(START))
    assert log._size + len(log._tail) < 1_200_000 + (256 << 10)
    assert [entry.frame for entry in log.entries()][1:] == frames


WELCOME = {"t": "welcome", "ver": [1, 3], "server": "fake", "sid": "x", "caps": [], "limits": {}, "resume_token": "y"}


class Leased(StreamTransport):
    leased = True


def fake(*peers: Callable[[Callable[[], dict], Callable[[dict], None]], None]) -> Connection:
    """Connects to the first of peers, which gets each next connection after it returned."""
    rest = iter(peers)

    def dial(timeout: float | None) -> Leased:
        ours, theirs = socket.socketpair()
        peer = next(rest)

        def receive() -> dict:
            size = struct.unpack("<I", theirs.recv(4, socket.MSG_WAITALL))[0]
            return decode(theirs.recv(size, socket.MSG_WAITALL))

        def send(message: dict) -> None:
            frame = encode(message)
            theirs.sendall(struct.pack("<I", len(frame)) + frame)

        def serve() -> None:
            with theirs:
                peer(receive, send)

        threading.Thread(target=serve, daemon=True).start()
        return Leased(ours, timeout)

    return Connection(dial(60), dial=dial, reconnect=60)


def test_running_and_the_missed_reply() -> None:
    """The client tries again while the server says RUNNING, and gets the reply that it missed with its id."""
    hellos: list[dict] = []
    again: list[dict] = []  # must not come
    ended = threading.Event()

    def first(receive: Any, send: Any) -> None:
        send(WELCOME | {"id": receive()["id"]})
        send({"t": "stats.ok", "id": receive()["id"], "steps": 1})
        hellos.append(receive())  # the request whose reply does not come

    def running(receive: Any, send: Any) -> None:
        hellos.append(receive())
        busy = {"t": "err", "code": "UNAVAILABLE", "reason": "RUNNING", "msg": "", "retry_after_ms": 20}
        send(busy | {"id": hellos[-1]["id"]})

    def missed(receive: Any, send: Any) -> None:
        hellos.append(receive())
        send(WELCOME | {"id": hellos[-1]["id"], "last": hellos[0]["id"]})
        send({"t": "stats.ok", "id": hellos[0]["id"], "steps": 2})
        with contextlib.suppress(struct.error):
            again.append(receive())
        ended.set()

    with fake(first, running, running, missed) as connection:
        assert connection.request("stats")["steps"] == 1
        assert connection.request("stats")["steps"] == 2
        connection.close()
        ended.wait(60)
    assert not again
    request, *rest = hellos
    assert [hello["resume"] for hello in rest] == [{"sid": "x", "token": "y", "last": request["id"] - 1}] * 3


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


def test_what_leaves_the_state_unknown() -> None:
    """A request that failed halfway, and a reset with seeds that nobody got: no rebuilding until the next seeds."""
    for harm in (
        lambda log: log.refused("INTERNAL"),
        lambda log: journal_module.Stream(log).refused("DEADLINE_EXCEEDED"),
        lambda log: journal_module.Reset(log, {"eid": 1}).uncertain(7, b"reset"),
    ):
        log = Log(1, b"make", {"eid": 1, "n": 2, "spec": {}})
        log.refused("INVALID_ARGUMENT")  # changed nothing
        assert len(list(log.entries())) == 1
        harm(log)
        with pytest.raises(CannotRebuildError, match="failed"):
            list(log.entries())
        journal_module.Reset(log, {"eid": 1, "seed": 5}).accepted(9, b"seeded", bytearray(START))
        assert [entry.frame for entry in log.entries()] == [b"make", b"seeded"]


def test_an_abandoned_request_is_repeated_whatever_its_reply_was() -> None:
    log = Log(1, b"make", {"eid": 1, "n": 2, "spec": {}})
    log.uncertain(5, b"step")
    entry = list(log.entries())[1]
    refusal = bytearray(START) + encode({"t": "err", "id": 5, "code": "INVALID_ARGUMENT", "msg": ""})
    assert entry.agrees(refusal)
    assert not next(iter(log.entries())).agrees(refusal)


def test_a_request_that_did_not_arrive_is_sent_again_with_its_id() -> None:
    asked: list[dict] = []

    def first(receive: Any, send: Any) -> None:
        send(WELCOME | {"id": receive()["id"]})
        asked.append(receive())

    def second(receive: Any, send: Any) -> None:
        hello = receive()
        send(WELCOME | {"id": hello["id"], "last": asked[0]["id"] - 1})
        asked.append(receive())
        send({"t": "stats.ok", "id": asked[1]["id"], "steps": 3})

    with fake(first, second) as connection:
        assert connection.request("stats")["steps"] == 3
    assert asked[0] == asked[1]


@pytest.fixture
def _interrupts() -> Iterator[None]:
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)


@pytest.mark.usefixtures("_interrupts")
def test_interrupt_while_connecting_again() -> None:
    """Ctrl-C ends the waiting, and the next call begins it again."""
    with Server(args=["--listen", "127.0.0.1:0"]) as first:
        url = first.ws_url
        vector = Vector(connect(url), CARTPOLE)
        obs = vector.reset(seed=3)["obs"]
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        vector.step(np.zeros(1, np.int64))
    timer.join()
    port = url.split(":")[2].split("/")[0]
    with Server(args=["--listen", f"127.0.0.1:{port}"]):
        np.testing.assert_array_equal(vector.reset(seed=3)["obs"], obs)
        vector.connection.close()


def test_checksum_of_replies() -> None:
    """CRC-32 of the bytes after START, of zlib: 0xCBF43926 for "123456789", the usual check value."""
    assert checksum(bytearray(START) + b"123456789") == 0xCBF43926


def test_sb3_training_survives_kills() -> None:
    """The parameters equal those of an undisturbed training, to the last bit."""
    sb3 = pytest.importorskip("stable_baselines3")
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
