"""Ways to a server: by its URL to a session."""

from __future__ import annotations

import ipaddress
import os
import random
import re
import socket
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from kubernasium.errors import ConnectionLostError, UnauthenticatedError
from kubernasium.protocol.connection import DEFAULT_TIMEOUT, Connection
from kubernasium.protocol.packing import PackedTransport, compresses
from kubernasium.protocol.resume import DEFAULT_RECONNECT, Dial
from kubernasium.protocol.shared import connect_unix, shares
from kubernasium.protocol.transport import Transport
from kubernasium.protocol.websocket import connect_websocket

_DNS = "k8s+dns"
_ALONE = 2.0  # seconds for a connection to one of several servers, so that the next gets its turn


def connect(
    url: str | Sequence[str],
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
            the others take over if it no longer answers, as with several URLs.
        token: bearer token of a WebSocket server; by default the environment variable
            KUBERNASIUM_TOKEN.
        timeout: seconds to wait for each reply, or None to wait without end. After a timeout
            the connection is closed.
        reconnect: seconds for which to reconnect after the connection was lost. Then the session is resumed, or its
            deterministic environments are rebuilt at a restarted server; no request is executed twice. 0 or less: a
            lost connection is an error at once.

    Raises:
        ConnectionLostError: nobody answers there.
        UnauthenticatedError: the token is wrong or missing.
        ValueError: the URL is of no known kind.
    """
    dial, local = dialer(url, token)
    return Connection(dial(timeout), local=local, dial=dial, reconnect=reconnect)


def dialer(url: str | Sequence[str], token: str | None = None, first: str = "") -> tuple[Dial, bool]:
    """Returns a function that connects to url, and whether that is on this machine; see `connect`.

    Args:
        url: of a server, or several.
        token: see `connect`.
        first: the server to begin with, of several.
    """
    urls = several(url)
    local = all(_is_local(one) for one in urls)
    if len(urls) == 1 and urlsplit(urls[0]).scheme != _DNS:
        return _dialer(urls[0], token), local
    for one in urls:
        _check(one)
    return _Route(urls, token, first), local


def several(url: str | Sequence[str]) -> list[str]:
    """Returns the URLs of a sequence, or those of a string with commas between them."""
    return re.split(r",(?=[a-z0-9+]+:)", url) if isinstance(url, str) else list(url)


def many(urls: Sequence[str]) -> bool:
    """Reports whether URLs may be of several servers."""
    return len(urls) > 1 or urlsplit(urls[0]).scheme == _DNS


def resolve(urls: Sequence[str]) -> list[str]:
    """Returns the URL of each server, with those behind host names in the order of their addresses.

    Raises:
        ConnectionLostError: there is no such host name.
    """
    out: list[str] = []
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme != _DNS:
            out.append(url)
            continue
        _check(url)
        try:
            found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        except OSError as err:
            raise ConnectionLostError(f"{url}: {err}") from err
        for address in sorted({str(info[4][0]) for info in found}):
            host = f"[{address}]" if ":" in address else address
            out.append(parts._replace(scheme="ws", netloc=f"{host}:{parts.port}").geturl())
    return list(dict.fromkeys(out))


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == _DNS and not (parts.hostname and parts.port):
        raise ValueError(f"{url!r}, want {_DNS}://name:port")


def _is_local(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "unix" or (parts.scheme != _DNS and is_loopback(parts.hostname or ""))


def _dialer(url: str, token: str | None) -> Dial:
    """Returns a function that connects to one server."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        path = unquote(parts.netloc + parts.path)
        share = shares(url) and not compresses(url)
        dial: Dial = lambda timeout: connect_unix(path, timeout, share)  # noqa: E731
    else:
        if token is None:
            token = os.environ.get("KUBERNASIUM_TOKEN") or None
        at = "ws" + url[len("http") :] if parts.scheme in ("http", "https") else url
        dial = lambda timeout: connect_websocket(at, token, timeout)  # noqa: E731
    return (lambda timeout: PackedTransport(dial(timeout))) if compresses(url) else dial


def is_loopback(host: str) -> bool:
    """Reports whether a host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Route:
    """Connects to one of several servers, and to another one when that does not answer."""

    def __init__(self, urls: Sequence[str], token: str | None, first: str) -> None:
        self._urls, self._token = urls, token
        self._at = first  # the server of the last connection

    def __call__(self, timeout: float | None) -> Transport:
        """Connects to the last server, or else to others in random order, so that processes spread over them."""
        servers = resolve(self._urls)
        random.SystemRandom().shuffle(servers)
        servers.sort(key=lambda server: server != self._at)
        failures = []
        for server in servers:
            try:
                transport = _dialer(server, self._token)(_ALONE if timeout is None else min(timeout, _ALONE))
            except UnauthenticatedError:
                raise
            except ConnectionLostError as err:
                failures.append(str(err))
                continue
            transport.limit(timeout)
            self._at = server
            return transport
        raise ConnectionLostError(f"no server behind {', '.join(self._urls)} answers: {'; '.join(failures)}")
