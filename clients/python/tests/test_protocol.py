"""Sessions with a live server, over each transport, and with faulty ones."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

import numpy as np
import pytest

from kubernasium import errors
from kubernasium.launcher import Server
from kubernasium.protocol import Connection, Vector, connect, decode, encode
from kubernasium.protocol.transport import StreamTransport
from kubernasium.protocol.websocket import mask

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"


def test_handshake(connection: Connection) -> None:
    assert connection.server.startswith("kubernasium/")
    assert connection.version[0] == 1
    assert connection.limits["envs_make"] > 0
    assert connection.sid


def test_envs(connection: Connection) -> None:
    ids = [spec["id"] for spec in connection.request("envs")["envs"]]
    assert ids == sorted(ids)
    assert {CARTPOLE, GANG} <= set(ids)


@pytest.mark.parametrize("num_envs", [1, 2, 64, 1024])
def test_step(connection: Connection, num_envs: int) -> None:
    vector = Vector(connection, CARTPOLE, num_envs, autoreset="SAME_STEP")
    first = vector.reset(seed=7)["obs"]
    assert first.shape == (num_envs, 4)
    assert first.dtype == np.float32
    kept = first.copy()
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(120):
        batch = vector.step(rng.integers(0, 2, num_envs))
        assert batch["obs"].shape == (num_envs, 4)
        assert batch["r"].dtype == np.float64
        if "fin" in batch:
            rows = batch["fin"]["idx"]
            ended += len(rows)
            done = np.zeros(num_envs, bool)
            done[rows] = True
            np.testing.assert_array_equal(batch["te"] if "te" in batch else batch["tr"], done)
            assert batch["fin"]["obs"].shape == (len(rows), 4)
    np.testing.assert_array_equal(first, kept)  # replies do not share memory
    stats = vector.stats()
    assert stats["steps"] == 120 * num_envs
    assert stats["episodes"] == ended
    vector.close()
    with pytest.raises(errors.NotFoundError):
        connection.request("stats", eid=1)


def test_transports_agree(server: Server) -> None:
    """Equal seeds give equal bytes, whatever the transport and the number of threads."""
    batches = []
    for url, threads in ((server.url, 1), (server.ws_url, 2)):
        with connect(url) as connection:
            vector = Vector(connection, GANG, 70, autoreset="SAME_STEP", options={"steps": 20}, threads=threads)
            replies = [vector.reset(seed=3)]
            rng = np.random.default_rng(0)
            replies += [vector.step(rng.integers(0, 4, 70)) for _ in range(50)]
            batches.append(replies)
    for one, other in zip(*batches, strict=True):
        assert one.keys() == other.keys()
        for key in ("obs", "r", "tr"):
            if key in one:
                assert one[key].tobytes() == other[key].tobytes()


def test_large_frames(connection: Connection) -> None:
    """Replies of more than 64 KiB come in pieces; larger requests need longer headers."""
    vector = Vector(connection, GANG, 80, options={"windows": 20, "horizon": 20, "instances": 2})
    batch = vector.reset(seed=1)
    assert batch["obs"].nbytes > 1 << 17
    for _ in range(3):
        again = vector.step(np.zeros(80, np.int64))
        assert again["obs"].shape == batch["obs"].shape
        assert np.isfinite(again["obs"]).all()


@pytest.mark.parametrize(
    ("kind", "fields", "error", "reason"),
    [
        ("make", {"env": "k8s/Nothing-v0"}, errors.UnknownEnvError, "UNKNOWN_ENV"),
        ("make", {"env": GANG, "options": {"window": 3}}, errors.InvalidOptionError, "INVALID_OPTION"),
        ("make", {"env": GANG, "n": 10**6}, errors.BusyError, "ENVS"),
        ("make", {"env": 3}, errors.InvalidArgumentError, "BAD_FIELD"),
        ("step", {"eid": 99, "a": 0}, errors.NotFoundError, "UNKNOWN_EID"),
        ("hello", {"ver": [1, 2]}, errors.FailedPreconditionError, "HELLO_TWICE"),
        ("resume", {}, errors.UnimplementedError, "RESERVED"),
        ("dance", {}, errors.UnimplementedError, "UNKNOWN_MESSAGE"),
    ],
)
def test_refusals(connection: Connection, kind: str, fields: dict, error: type, reason: str) -> None:
    with pytest.raises(error) as caught:
        connection.request(kind, **fields)
    assert caught.value.reason == reason
    assert reason in str(caught.value)
    connection.request("ping")  # the session lives


def test_step_errors(connection: Connection) -> None:
    vector = Vector(connection, CARTPOLE, 2, autoreset="DISABLED")
    with pytest.raises(errors.ResetNeededError):
        vector.step(np.zeros(2, np.int64))
    vector.reset(seed=0)
    for bad in (np.array([0, 5]), np.array([0.0, 1.0]), np.zeros(3, np.int64), np.zeros((2, 1), np.int64)):
        with pytest.raises(errors.InvalidActionError):
            vector.step(bad)
    assert vector.stats()["steps"] == 0
    vector.step(np.array([0, 1], np.int8))  # smaller integers are fine
    one = Vector(connection, CARTPOLE, 1)
    one.reset()
    for bad in (2, -1, 1 << 70, 0.5, "x", None):
        with pytest.raises(errors.InvalidActionError):
            one.step_one(bad)
    one.step_one(np.int32(1))


def test_pending_steps(connection: Connection) -> None:
    vector = Vector(connection, CARTPOLE, 2)
    vector.reset(seed=0)
    with pytest.raises(errors.NoPendingStepError):
        vector.step_wait()
    vector.step_async(np.array([0, 1]))
    for call in (lambda: vector.step_async(np.array([0, 1])), vector.reset, vector.render, vector.stats):
        with pytest.raises(errors.PendingStepError):
            call()
    connection.ping()  # its reply comes first and is skipped
    assert vector.step_wait(timeout=60)["r"].tolist() == [1, 1]


def test_other_vectors_replies_are_never_mixed_up(connection: Connection) -> None:
    one, two = Vector(connection, CARTPOLE, 2), Vector(connection, GANG, 2)
    one.reset(seed=0)
    two.reset(seed=0)
    for i in range(40):
        connection.ping()
        assert one.step(np.array([i % 2, 0]))["obs"].shape == (2, 4)
        assert two.step(np.array([i % 4, 0]))["obs"].shape == (2, 41)


def test_vectors_of_one_connection_step_at_once(connection: Connection) -> None:
    """Replies come in the order of the steps, and whoever waits first gets its own."""
    one, two, alone = (Vector(connection, env_id, 2) for env_id in (CARTPOLE, GANG, CARTPOLE))
    one.reset(seed=0)
    two.reset(seed=0)
    alone.reset(seed=0)
    for i in range(40):
        actions = np.array([i % 2, 0])
        one.step_async(actions)
        two.step_async(actions)
        connection.ping()
        if i % 3:
            assert two.step_wait()["obs"].shape == (2, 41)
        assert one.step_wait(timeout=60)["obs"].tolist() == alone.step(actions)["obs"].tolist()
        if not i % 3:
            assert two.step_wait(timeout=60)["obs"].shape == (2, 41)
    one.step_async(np.array([0, 2]))  # is refused
    assert two.reset()["obs"].shape == (2, 41)
    with pytest.raises(errors.InvalidActionError):
        one.step_wait()
    one.step_async(np.array([0, 1]))
    two.close()
    assert one.step_wait()["obs"].shape == (2, 4)


def test_closed(connection: Connection) -> None:
    vector = Vector(connection, CARTPOLE, 2)
    connection.close()
    connection.close()
    with pytest.raises(errors.ClosedError):
        vector.reset()
    with pytest.raises(errors.ClosedError):
        connection.request("ping")
    vector.close()


def test_token() -> None:
    """A token is needed on WebSocket, sent as a header, and never echoed."""
    import os

    os.environ["KUBERNASIUM_TOKEN"] = "s3cret"
    try:
        with Server(args=["--listen", "127.0.0.1:0"]) as server:
            connect(server.ws_url).close()
            connect(server.ws_url, token="s3cret").close()
            with pytest.raises(errors.UnauthenticatedError) as caught:
                connect(server.ws_url, token="guess")
            assert "guess" not in str(caught.value)
            with pytest.raises(ValueError, match="characters"):
                connect(server.ws_url, token="a\r\nb: c")
    finally:
        del os.environ["KUBERNASIUM_TOKEN"]


def test_nobody_there(tmp_path) -> None:
    with pytest.raises(errors.ConnectionLostError):
        connect(f"unix:{tmp_path}/none")
    with socket.socket() as deaf:  # has the port, so that nobody else does, and does not listen
        deaf.bind(("127.0.0.1", 0))
        with pytest.raises(errors.ConnectionLostError):
            connect(f"ws://127.0.0.1:{deaf.getsockname()[1]}", timeout=60)
    for url in ("ftp://127.0.0.1", "ws://"):
        with pytest.raises(ValueError, match=f"URL '{url}', want ws://.*, wss://.*, unix:.* or k8s\\+dns://name:port"):
            connect(url)


def test_http_server_that_is_not_ours(server: Server) -> None:
    with pytest.raises(errors.ConnectionLostError, match="404"):
        connect(server.ws_url.replace("/v1/ws", "/elsewhere"))


FIRST_ID = (1 << 32) + 1  # of a connection's requests
WELCOME = {"t": "welcome", "ver": [1, 2], "server": "fake", "sid": "x", "caps": [], "limits": {}}
Peer = Callable[[Callable[[], dict], Callable[[dict], None]], None]


def fake(peer: Peer, timeout: float = 60) -> Connection:
    """Connects to a peer that has said welcome, and then says what the function peer says."""
    ours, theirs = socket.socketpair()

    def receive() -> dict:
        size = struct.unpack("<I", theirs.recv(4, socket.MSG_WAITALL))[0]
        return decode(theirs.recv(size, socket.MSG_WAITALL))

    def send(message: dict) -> None:
        frame = encode(message)
        theirs.sendall(struct.pack("<I", len(frame)) + frame)

    def serve() -> None:
        with theirs:
            receive()  # the hello
            peer(receive, send)

    send(WELCOME | {"id": FIRST_ID})  # now: the thread may need longer to begin than the timeout
    threading.Thread(target=serve, daemon=True).start()
    return Connection(StreamTransport(ours, timeout))


def test_late_replies_and_events_are_skipped() -> None:
    def peer(receive, send) -> None:
        rid = receive()["id"]
        send({"t": "ping.ok", "id": rid - 1})
        send({"t": "drain", "id": 0, "ms": 5})
        send({"t": "news", "id": 0})
        send({"t": "ping.ok", "id": rid, "ts": 3})

    with fake(peer) as connection:
        assert connection.request("ping")["ts"] == 3
        assert connection.draining


MADE = {
    "eid": 1,
    "env": CARTPOLE,
    "n": 1,
    "autoreset": "NEXT_STEP",
    "max_episode_steps": 0,
    "obs_space": {"kind": "box", "dtype": "float32", "shape": [1], "low": [0.0], "high": [1.0]},
    "act_space": {"kind": "discrete", "dtype": "int64", "shape": [], "n": [2]},
    "mask": 2,
    "spec": {"render_modes": [], "info": []},
}


def test_replies_that_overtake_a_step_are_skipped() -> None:
    """The reply to a ping, and a refusal at arrival, may come before that to an earlier step."""

    def peer(receive, send) -> None:
        for eid in (1, 2):
            send({"t": "make.ok", "id": receive()["id"]} | MADE | {"eid": eid})
        first, ping, second = (receive()["id"] for _ in range(3))
        send({"t": "ping.ok", "id": ping})
        send({"t": "err", "id": second, "code": "RESOURCE_EXHAUSTED", "reason": "INFLIGHT", "msg": "too many"})
        send({"t": "step.ok", "id": first, "obs": np.zeros((1, 1), np.float32), "r": np.array([7.0])})

    with fake(peer) as connection:
        one, two = Vector(connection, CARTPOLE), Vector(connection, CARTPOLE)
        one.step_async(np.array([0]))
        connection.ping()
        two.step_async(np.array([0]))
        assert one.step_wait()["r"].tolist() == [7.0]
        with pytest.raises(errors.BusyError):
            two.step_wait()
        assert not connection.closed


def test_reply_of_the_future_ends_the_connection() -> None:
    with fake(lambda receive, send: send({"t": "ping.ok", "id": receive()["id"] + 1})) as connection:
        with pytest.raises(errors.ProtocolError):
            connection.request("ping")
        assert connection.closed


def test_timeout_ends_the_connection() -> None:
    done = threading.Event()
    with fake(lambda receive, send: (receive(), done.wait(10)), timeout=0.2) as connection:
        with pytest.raises(errors.ReplyTimeoutError):
            connection.request("ping")
        with pytest.raises(errors.ConnectionLostError, match="make the environment again"):
            connection.request("ping")
    done.set()


def test_end_of_the_server_is_a_lost_connection() -> None:
    with fake(lambda receive, send: None) as connection, pytest.raises(errors.ConnectionLostError):
        connection.request("ping")


def test_mask_of_websocket() -> None:
    key = bytes([1, 2, 3, 250])
    for size in (0, 1, 3, 4, 125, 126, 511, 512, 513, 4097, 70001):
        payload = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
        want = bytes(b ^ key[i % 4] for i, b in enumerate(payload))
        assert mask(payload, key) == want
