"""Frames in shared memory: as the socket's, and without it where one side cannot."""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaos import Digest
from kubernasium import launcher
from kubernasium.errors import NoPendingStepError, ProtocolError
from kubernasium.launcher import Server
from kubernasium.protocol import connect, connection, shared
from kubernasium.protocol.codec import encode
from kubernasium.protocol.shared import SharedTransport
from kubernasium.vector import VectorEnv

pytestmark = pytest.mark.skipif(not shared.AVAILABLE, reason="memory is shared on Linux only")

CARTPOLE, GANG, GPU = "classic/CartPole-v1", "k8s/GangWindow-v0", "k8s/GPUPodScheduling-v1"


class Calls:
    """Counts the requests that lie in shared memory, and their replies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests, self.replies = 0, 0
        send, recv = SharedTransport.send, SharedTransport.recv

        def count_send(transport: SharedTransport, frame: bytes) -> None:
            before = called(transport)
            send(transport, frame)
            self.requests += called(transport) - before

        def count_recv(transport: SharedTransport) -> bytearray:
            before = transport._answered
            frame = recv(transport)
            self.replies += transport._answered - before
            return frame

        monkeypatch.setattr(SharedTransport, "send", count_send)
        monkeypatch.setattr(SharedTransport, "recv", count_recv)


def called(transport: SharedTransport) -> int:
    return 0 if transport._counts is None else transport._counts[shared._CALLED]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def play(env_id: str, n: int, steps: int, url: str, **options: Any) -> str:
    digest = Digest()
    with VectorEnv(env_id, n, url=url, autoreset_mode="SameStep", **options) as envs:
        rng = np.random.default_rng(4)
        digest.add(envs.reset(seed=3)[0])
        for _ in range(steps):
            for part in envs.step(rng.integers(0, envs.single_action_space.n, n)):
                digest.add(part)
    return digest.hex()


@pytest.mark.parametrize(
    ("env_id", "n", "options"),
    [(CARTPOLE, 1, {}), (CARTPOLE, 300, {}), (GANG, 40, {"instances": 3}), (GPU, 3, {})],
)
def test_equals_the_socket(server: Server, calls: Calls, env_id: str, n: int, options: dict[str, Any]) -> None:
    want = play(env_id, n, 200, server.url + "?shm=0", **options)
    assert (calls.requests, calls.replies) == (0, 0)
    assert play(env_id, n, 200, server.ws_url, **options) == want
    assert (calls.requests, calls.replies) == (0, 0)
    assert play(env_id, n, 200, server.url, **options) == want
    assert calls.requests >= 202
    assert calls.replies == calls.requests


def test_arrays_stay(server: Server, calls: Calls) -> None:
    with VectorEnv(CARTPOLE, 300, url=server.url) as envs:
        envs.reset(seed=1)
        kept = [envs.step(np.ones(300, np.int64)) for _ in range(20)]
        copies = [[np.array(part) for part in step[:4]] for step in kept]
        for _ in range(20):
            envs.step(np.zeros(300, np.int64))
    assert calls.replies > 40
    for step, copy in zip(kept, copies, strict=True):
        for got, want in zip(step, copy, strict=False):
            assert np.array_equal(got, want)
            assert got.flags.writeable
            assert got.flags.aligned


def test_turned_off(server: Server, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNASIUM_SHM", "0")
    want = play(CARTPOLE, 300, 5, server.url)
    monkeypatch.setenv("KUBERNASIUM_SHM", "1")
    assert calls.requests == 0
    assert play(CARTPOLE, 300, 5, server.url + "?shm=1") == want
    assert calls.requests > 0
    with pytest.raises(ValueError, match="want 0 or 1"):
        connect(server.url + "?shm=maybe")


def test_an_old_server(server: Server, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "VERSION", (1, 7))  # as a server of 1.7 would see this client
    play(CARTPOLE, 300, 5, server.url)
    assert calls.requests == 0


@pytest.mark.parametrize("what", ["mmap", "no descriptor", "small"])
def test_the_system_refuses(server: Server, calls: Calls, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    want = play(CARTPOLE, 300, 5, server.url + "?shm=0")

    def refuse(*args: Any) -> mmap.mmap:
        raise OSError("Cannot allocate memory")

    if what == "mmap":
        monkeypatch.setattr(mmap, "mmap", refuse)
    elif what == "no descriptor":
        monkeypatch.setattr(SharedTransport, "_recv_descriptor", lambda self, *a: self.sock.recv_into(*a))
    else:
        share = SharedTransport.share
        monkeypatch.setattr(SharedTransport, "share", lambda self, size: share(self, 4096))
    gc.collect()  # files of earlier tests
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    assert play(CARTPOLE, 300, 5, server.url) == want
    assert calls.requests == 0
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files


def test_replies_without_room(server: Server, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    want = play(GANG, 40, 30, server.url + "?shm=0", instances=3)
    share = SharedTransport.share

    def narrow(self: SharedTransport, size: int) -> None:
        share(self, size)
        self._room = 4000

    monkeypatch.setattr(SharedTransport, "share", narrow)
    assert play(GANG, 40, 30, server.url, instances=3) == want
    assert calls.replies == calls.requests > 30


def test_pipelined_requests(server: Server, calls: Calls) -> None:
    """A request lies in the memory only if those before it were answered; the others go over the socket."""
    with connect(server.url) as session:
        with session.lock:
            ids = [session.next_id() for _ in range(4)]
            for rid in ids:
                session.send(encode({"t": "ping", "id": rid}), rid)
                session.expect(rid)
        for rid in ids:
            assert session.poll(rid, 20)
            with session.lock:
                session.recv(rid)
        assert calls.requests == 1
        session.request("ping")
        assert calls.requests == 2


def test_interrupts(server: Server, calls: Calls, interrupts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "GRACE", 60.0)  # a slow step is not to be cancelled
    with VectorEnv(CARTPOLE, 300, url=server.url) as envs, VectorEnv(CARTPOLE, 300, url=server.url + "?shm=0") as twin:
        envs.reset(seed=1)
        twin.reset(seed=1)
        rng, taken = np.random.default_rng(0), 0
        interrupted = 0
        for _ in range(300):
            actions = rng.integers(0, 2, 300)
            old = signal.signal(signal.SIGALRM, raise_interrupt)
            try:
                signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(10e-6, 300e-6)))
                envs.step(actions)
                time.sleep(0.001)
                signal.setitimer(signal.ITIMER_REAL, 0)  # before `finally`, where an interrupt would end pytest
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, old)
            with contextlib.suppress(NoPendingStepError):  # between the two halves of the step
                envs.step_wait()
            # The server carried it out, or it never came.
            done = envs.vector.stats()["steps"] // 300
            if done > taken:
                twin.step(actions)
                taken = done
        actions = rng.integers(0, 2, 300)
        assert interrupted > 20
        for got, want in zip(envs.step(actions)[:4], twin.step(actions)[:4], strict=True):
            assert np.array_equal(got, want)


def raise_interrupt(*args: object) -> None:
    raise KeyboardInterrupt


def test_the_server_is_killed(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is killed is started again, and the environments are made what they were."""

    def run(kill: bool) -> str:
        digest = Digest()
        with VectorEnv(CARTPOLE, 300) as envs:
            digest.add(envs.reset(seed=1)[0])
            for k in range(30):
                if kill and k % 10 == 5:
                    os.kill(launcher.default_server().pid, signal.SIGKILL)
                digest.add(envs.step((np.arange(300) + k) % 2)[0])
        return digest.hex()

    want = run(kill=False)
    assert calls.requests > 30
    calls.requests = 0
    assert run(kill=True) == want
    assert calls.requests >= 31 - 3  # the request at each kill may go over the socket


VICTIM = """
import sys, numpy as np
from kubernasium.vector import VectorEnv
envs = VectorEnv("classic/CartPole-v1", 1024, url=sys.argv[1])
envs.reset(seed=1)
print("ready", flush=True)
while True:
    envs.step(np.zeros(1024, np.int64))
"""


def mapped(pid: int) -> int:
    return Path(f"/proc/{pid}/maps").read_text().count("memfd:kubernasium")


def test_the_client_is_killed() -> None:
    """A client that is killed in the middle of a step leaves nothing behind at the server."""

    def shared_with(clients: int) -> None:
        end = time.monotonic() + 20
        while mapped(server.pid) != clients:
            assert time.monotonic() < end
            time.sleep(0.01)

    with Server() as server:
        for _ in range(3):
            with subprocess.Popen([sys.executable, "-c", VICTIM, server.url], stdout=subprocess.PIPE) as victim:
                assert victim.stdout is not None
                assert victim.stdout.readline() == b"ready\n"
                shared_with(1)
                victim.kill()
        shared_with(0)
        assert play(CARTPOLE, 300, 5, server.url) == play(CARTPOLE, 300, 5, server.url + "?shm=0")


def paired(size: int = 64 << 20) -> tuple[SharedTransport, socket.socket, memoryview]:
    """Returns a transport that shares memory, the server's end of its socket, and the counters."""
    ours, theirs = socket.socketpair()
    transport = SharedTransport(ours, 20)
    transport._descriptor = os.memfd_create("test")
    os.ftruncate(transport._descriptor, size)
    transport.share(size)
    transport.settled = True
    assert transport._counts is not None
    return transport, theirs, transport._counts


def reply(transport: SharedTransport, frame: bytes) -> None:
    """Is the server that replies in the memory, and does not wake the client."""
    memory, counts = transport._memory, transport._counts
    assert memory is not None
    assert counts is not None
    memory[shared._REPLIES + 16 : shared._REPLIES + 16 + len(frame)] = frame
    struct.pack_into("<II", memory, 80, len(frame), shared._REPLIES + 16)
    counts[shared._REPLIED] = counts[shared._CALLED]


def test_places() -> None:
    """Requests and replies lie where the protocol says, and nothing is sent to a server that does not sleep."""
    transport, theirs, counts = paired()
    with theirs:
        transport.send(b"request")
        memory = transport._memory
        assert memory is not None
        assert struct.unpack_from("<I", memory, 0) == (1,)
        size, at, reply_at, room = struct.unpack_from("<IIII", memory, 16)
        assert bytes(memory[at : at + size]) == b"request"
        assert 128 <= at < at + size <= reply_at < reply_at + room <= 64 << 20
        memory[reply_at : reply_at + 5] = b"reply"
        struct.pack_into("<II", memory, 80, 5, reply_at)
        struct.pack_into("<I", memory, 64, 1)
        assert transport.recv()[16:] == b"reply"
        assert counts[1] == 0
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        transport.close()


def test_wakes_a_server_that_sleeps() -> None:
    transport, theirs, counts = paired()
    with theirs:
        counts[17] = 1
        transport.send(b"request")
        assert theirs.recv(100) == bytes(4)
        counts[17] = 0
        reply(transport, b"reply")
        assert transport.recv()[16:] == b"reply"
        transport.close()


def test_wakes_a_server_that_fell_asleep() -> None:
    """The server's flag is seen only when the client is to sleep itself; the server then sees the client's."""
    transport, theirs, counts = paired()
    with theirs:
        transport.send(b"request")
        counts[17] = 1

        def serve() -> None:
            assert theirs.recv(100) == bytes(4)
            reply(transport, b"reply")
            theirs.sendall(bytes(4 * (counts[1] == 1)))

        server = threading.Thread(target=serve)
        server.start()
        assert transport.recv()[16:] == b"reply"
        server.join()
        assert counts[1] == 0
        transport.close()


def test_stray_wakes() -> None:
    """Wakes that come late hold up no frame, and `ready` takes them for none."""
    transport, theirs, _ = paired()
    with theirs:
        theirs.sendall(bytes(8))
        assert not transport.ready(0.0)
        transport.send(b"request")
        theirs.sendall(bytes(4))
        assert not transport.ready(0.01)
        reply(transport, b"reply")
        assert transport.ready(0.0)
        assert transport.recv()[16:] == b"reply"
        theirs.sendall(bytes(4) + struct.pack("<I", 5) + b"event" + bytes(4))
        assert transport.recv()[16:] == b"event"
        transport.settled = True
        transport.send(b"another")
        theirs.sendall(struct.pack("<I", 5) + b"event")
        monotonic = time.monotonic()
        assert transport.recv()[16:] == b"event"  # while the request is carried out
        assert time.monotonic() < monotonic + 10
        reply(transport, b"second")
        assert transport.recv()[16:] == b"second"
        transport.close()


@pytest.mark.parametrize("slept", [False, True])
def test_a_reply_without_room(slept: bool) -> None:
    """It follows on the socket, perhaps after an event."""
    transport, theirs, counts = paired()
    with theirs:
        for _ in range(2):
            transport.settled = True
            transport.send(b"request")
            memory = transport._memory
            assert memory is not None
            transport._skip = int(slept)
            struct.pack_into("<II", memory, 80, 5, (1 << 32) - 1)
            if not slept:
                counts[16] = counts[0]
            theirs.sendall(struct.pack("<I", 5) + b"event" + struct.pack("<I", 5) + b"reply")
            counts[16] = counts[0]
            assert transport.recv()[16:] == b"event"
            assert transport.recv()[16:] == b"reply"
        transport.close()


def test_a_lying_server() -> None:
    """Offsets of a server outside the place of the reply end the connection."""
    for size, offset in ((8, 0), (64 << 20, shared._REPLIES + 16), (8, (1 << 32) - 2)):
        transport, theirs, counts = paired()
        with theirs:
            transport.send(b"request")
            assert transport._memory is not None
            struct.pack_into("<II", transport._memory, 80, size, offset)
            counts[16] = 1
            with pytest.raises(ProtocolError, match="of the shared memory"):
                transport.recv()
            transport.close()


def test_looks_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client looks for replies before it sleeps, ever more seldom if they come late."""
    transport, theirs, _ = paired()
    with theirs:
        monkeypatch.setattr(shared, "_SPIN", 1e-6)

        def trip(in_time: bool) -> int:
            transport.settled = True
            transport.send(b"request")
            if in_time:
                reply(transport, b"reply")
            with monkeypatch.context() as patch:
                patch.setattr(shared, "_fence", lambda: reply(transport, b"reply"))  # before it sleeps
                assert transport.recv()[16:] == b"reply"
            return transport._skip

        assert [trip(in_time=True) for _ in range(3)] == [0, 0, 0]
        assert [trip(in_time=False) for _ in range(8)] == [1, 0, 3, 2, 1, 0, 7, 6]
        assert max(trip(in_time=False) for _ in range(300)) == 64
        while trip(in_time=False):
            pass
        assert trip(in_time=True) == 63
        for _ in range(63 * 64 // 2 + 63):
            last = trip(in_time=True)
        assert last == 0
        transport.close()
