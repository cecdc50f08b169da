"""What harms connections: a proxy that cuts them, servers that are killed, and peers that say what a test decides."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import gymnasium
import numpy as np

from kubernasium.launcher import default_server, open_connection
from kubernasium.protocol import Connection, decode, encode
from kubernasium.protocol.transport import StreamTransport

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"

# Where a server listens whose port another one takes over later. Connections and other servers have other addresses of
# loopback, and so the port stays free meanwhile. Only Linux has more than one of them without being told to.
TO_INHERIT = ["--listen", "127.0.0.9:0" if sys.platform == "linux" else "127.0.0.1:0"]


def inheriting(url: str) -> list[str]:
    """Returns the arguments of a server that takes over the address of another one, which has ended."""
    return ["--listen", urlsplit(url).netloc]


class CuttingProxy:
    """Carries bytes to a server, and cuts every connection after a number of them.

    Attributes:
        url: where to connect, like the server's.
        cuts: connections that were cut so far.
    """

    def __init__(self, url: str, after: int, cuts: int, seed: int = 0) -> None:
        """Listens on loopback.

        Args:
            url: of the server, `ws://host:port...`.
            after: mean of the bytes after which to cut, in both directions together.
            cuts: how many connections to cut; later ones last.
            seed: of the numbers of bytes.
        """
        host, _, rest = url[len("ws://") :].partition(":")
        port, slash, path = rest.partition("/")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._listener.getsockname()[1]}{slash}{path}"
        self._rng, self._after, self._most, self.cuts = np.random.default_rng(seed), after, cuts, 0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours = self._listener.accept()[0]
                theirs = socket.create_connection(self._server)
                left = [int(self._rng.integers(600, 2 * self._after)) if self.cuts < self._most else 1 << 62]
                for source, sink in ((ours, theirs), (theirs, ours)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._carry, args=(source, sink, left), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, left: list[int]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    first = left[0] > 0
                    data = data[: max(0, left[0])]
                    left[0] -= len(data)
                    cut = left[0] <= 0
                    self.cuts += cut and first
                sink.sendall(data)
                if cut:
                    break
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.close()


class Digest:
    """A hash of everything that environments return."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, value: Any) -> None:
        """Adds arrays, scalars, or containers of them."""
        if isinstance(value, dict):
            for key in sorted(value):
                self._hash.update(key.encode())
                self.add(value[key])
        elif isinstance(value, (tuple, list)):
            for part in value:
                self.add(part)
        elif isinstance(value, np.ndarray) and value.dtype == object:
            self.add(value.tolist())
        else:
            array = np.asarray(0 if value is None else value)
            self._hash.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())

    def hex(self) -> str:
        """Returns the hash of what was added."""
        return self._hash.hexdigest()


def kill_default_server() -> None:
    """Kills the server that this process launched, as the kernel does when memory is short."""
    os.kill(default_server().pid, signal.SIGKILL)


def connect_default() -> Connection:
    """Connects to the server that this process launches."""
    return open_connection()


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


# Environments of each kind that connections and servers are taken from.
MAKERS = [
    lambda **kw: gymnasium.make(CARTPOLE, **kw).unwrapped,
    lambda **kw: gymnasium.make(GANG, steps=20, **kw).unwrapped,
    lambda **kw: gymnasium.make_vec(CARTPOLE, 3, autoreset_mode="SameStep", **kw),
    lambda **kw: gymnasium.make_vec(GANG, 2, steps=20, **kw),
]


WELCOME = {"t": "welcome", "ver": [1, 3], "server": "fake", "sid": "x", "caps": [], "limits": {}, "resume_token": "y"}


class Leased(StreamTransport):
    """A stream whose sessions are resumed, as over WebSocket."""

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
