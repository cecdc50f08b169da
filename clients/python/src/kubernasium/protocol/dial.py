"""Ways to a server: by its URL to a session."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import unquote, urlsplit

from kubernasium.protocol.connection import DEFAULT_TIMEOUT, Connection
from kubernasium.protocol.packing import PackedTransport, compresses
from kubernasium.protocol.resume import DEFAULT_RECONNECT, Dial
from kubernasium.protocol.transport import connect_unix
from kubernasium.protocol.websocket import connect_websocket


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
    if parts.scheme in ("http", "https"):
        url = "ws" + url[len("http") :]
    if token is None:
        token = os.environ.get("KUBERNASIUM_TOKEN") or None
    return lambda timeout: connect_websocket(url, token, timeout), is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Reports whether a host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
