"""What harms connections: a proxy that cuts them, and servers that are killed."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
from typing import Any

import numpy as np


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
