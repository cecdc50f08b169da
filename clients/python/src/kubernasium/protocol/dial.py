"""Ways to a server: by its URL to a session."""

from __future__ import annotations

import ipaddress
import os
import random
import socket
from urllib.parse import unquote, urlsplit

from kubernasium.errors import ConnectionLostError, UnauthenticatedError
from kubernasium.protocol.connection import DEFAULT_TIMEOUT, Connection
from kubernasium.protocol.packing import PackedTransport, compresses
from kubernasium.protocol.resume import DEFAULT_RECONNECT, Dial
from kubernasium.protocol.transport import Transport, connect_unix
from kubernasium.protocol.websocket import connect_websocket

_DNS = "k8s+dns"
_ALONE = 2.0  # seconds for a connection to one of several servers, so that the next gets its turn


def connect(
    url: str,
    *,
    token: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    reconnect: float = DEFAULT_RECONNECT,
) -> Connection:
    """Opens a session.

    Args:
        url: `unix:/path/to/socket`, `ws://host:port` or `wss://host:port`. With `?compress=zstd` at its end long
            frames are compressed, for slow links, if the server can do that; it needs `kubernasium[zstd]`.
            `k8s+dns://name:port` is one of the servers behind a host name, such as a headless Service of Kubernetes;
            the others take over when it does not answer any more.
        token: bearer token of a WebSocket server; by default the environment variable
            KUBERNASIUM_TOKEN.
        timeout: seconds to wait for each reply, or None to wait without end. After a timeout
            the connection is closed.
        reconnect: seconds for which to connect again after the connection was lost. The session is resumed then, or its
            deterministic environments are rebuilt at a server that was started anew; no request is carried out
            twice. 0 or less: a lost connection is an error at once.

    Raises:
        ConnectionLostError: nobody answers there.
        UnauthenticatedError: the token is wrong or missing.
        ValueError: the URL is of no known kind.
    """
    dial, local = dialer(url, token)
    return Connection(dial(timeout), local=local, dial=dial, reconnect=reconnect)


def dialer(url: str, token: str | None = None) -> tuple[Dial, bool]:
    """Returns a function that connects to url, and whether that is on this machine; see `connect`."""
    dial, local = _dialer(url, token)
    return (lambda timeout: PackedTransport(dial(timeout))) if compresses(url) else dial, local


def _dialer(url: str, token: str | None) -> tuple[Dial, bool]:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        path = unquote(parts.netloc + parts.path)
        return lambda timeout: connect_unix(path, timeout), True
    if token is None:
        token = os.environ.get("KUBERNASIUM_TOKEN") or None
    if parts.scheme == _DNS:
        return _Route(url, token), False
    if parts.scheme in ("http", "https"):
        url = "ws" + url[len("http") :]
    return lambda timeout: connect_websocket(url, token, timeout), is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Reports whether a host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Route:
    """Connects to one of the servers behind a host name, and to another one when that does not answer."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if not parts.hostname or not parts.port:
            raise ValueError(f"{url!r}, want {_DNS}://name:port")
        self._url, self._token = url, token
        self._name, self._port = parts.hostname, parts.port
        self._at = ""  # address of the last connection

    def __call__(self, timeout: float | None) -> Transport:
        """Connects to the last server, or else to others in random order, so that processes spread over them."""
        try:
            found = socket.getaddrinfo(self._name, self._port, type=socket.SOCK_STREAM)
        except OSError as err:
            raise ConnectionLostError(f"{self._url}: {err}") from err
        addresses = list({str(info[4][0]) for info in found})
        random.SystemRandom().shuffle(addresses)
        addresses.sort(key=lambda address: address != self._at)
        failures = []
        for address in addresses:
            host = f"[{address}]" if ":" in address else address
            try:
                transport = connect_websocket(
                    f"ws://{host}:{self._port}", self._token, _ALONE if timeout is None else min(timeout, _ALONE)
                )
            except UnauthenticatedError:
                raise
            except ConnectionLostError as err:
                failures.append(str(err))
                continue
            transport.limit(timeout)
            self._at = address
            return transport
        raise ConnectionLostError(f"no server behind {self._url} answers: {'; '.join(failures)}")
