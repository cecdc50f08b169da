"""Sessions that are not resumed: refused, not rebuilt, or given up; and what the journal keeps."""

from __future__ import annotations

import socket
import struct
import threading

import gymnasium
import numpy as np
import pytest

from chaos import CARTPOLE, connect_default, kill_default_server
from kubernasium import errors
from kubernasium.launcher import Server
from kubernasium.protocol import Connection, Vector, connect, encode
from kubernasium.protocol import journal as journal_module
from kubernasium.protocol.journal import CannotRebuildError, Log, checksum
from kubernasium.protocol.transport import START


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
        log._tail[0] = log._tail[0][:12] + struct.pack("<I", 77)
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
    assert log._size + log._bytes < 1_200_000 + (256 << 10)
    assert [entry.frame for entry in log.entries()][1:] == frames


def test_what_leaves_the_state_unknown() -> None:
    """A request that failed halfway, and a reset with seeds that nobody got: no rebuilding until the next seeds."""
    for harm in (
        lambda log: log.refused("INTERNAL"),
        lambda log: journal_module.Stream(log, True).refused("DEADLINE_EXCEEDED"),
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


@pytest.mark.parametrize(
    ("kind", "fields", "lasts"),
    [
        ("step", {"policy": "dynamic_mpc"}, False),
        ("policy", {"name": "dynamic_mpc"}, False),
        ("rollout", {"name": "dynamic_mpc"}, False),
        ("fork", {"from": 0, "to": [1]}, False),
        ("step", {"policy": "random"}, True),
        ("policy", {"name": "random"}, True),
        ("rollout", {"name": "random"}, True),
        ("snapshot", {}, True),
    ],
)
def test_what_a_reset_with_seeds_forgets(kind: str, fields: dict[str, object], lasts: bool) -> None:
    """It begins all anew but the stream of random actions and the numbers of snapshots, as a state does."""
    journal = journal_module.Journal()
    log = journal.logs[1] = Log(1, b"make", {"eid": 1, "n": 2, "spec": {}})
    sink = journal.sink(kind, {"eid": 1, **fields})
    assert sink is not None
    sink.accepted(5, b"request", bytearray(START))
    log.begin_with(6, b"state")
    assert (b"request" in [entry.frame for entry in log.entries()]) == lasts
    sink.accepted(7, b"request", bytearray(START))
    journal_module.Reset(log, {"eid": 1, "seed": 5}).accepted(9, b"seeded", bytearray(START))
    assert (b"request" in [entry.frame for entry in log.entries()]) == lasts


def test_an_abandoned_request_is_repeated_whatever_its_reply_was() -> None:
    log = Log(1, b"make", {"eid": 1, "n": 2, "spec": {}})
    log.uncertain(5, b"step")
    entry = list(log.entries())[1]
    refusal = bytearray(START) + encode({"t": "err", "id": 5, "code": "INVALID_ARGUMENT", "msg": ""})
    assert entry.agrees(refusal)
    assert not next(iter(log.entries())).agrees(refusal)


def test_checksum_of_replies() -> None:
    """CRC-32 of the bytes after START, of zlib: 0xCBF43926 for "123456789", the usual check value."""
    assert checksum(bytearray(START) + b"123456789") == 0xCBF43926


@pytest.mark.parametrize("size", [64 << 10, 500_003])
def test_checksum_of_long_replies(size: int) -> None:
    """It differs after a change of any byte, and after rows of a batch have changed places."""
    data = bytearray(np.random.default_rng(0).bytes(START + size))
    want, rng = checksum(data), np.random.default_rng(1)
    assert checksum(bytearray(START) + data[START:]) == want
    assert checksum(memoryview(data)) == want
    for at in (START, START + size - 1, *rng.integers(START, START + size, 50).tolist()):
        data[at] ^= 1 << int(rng.integers(8))
        changed = checksum(data)
        assert changed != want
        want = changed
    for row in (4, 128, 2048, 8192):
        i, j = START + 3 * row, START + 5 * row
        data[i : i + row], data[j : j + row] = data[j : j + row], data[i : i + row]
        changed = checksum(data)
        assert changed != want
        want = changed
