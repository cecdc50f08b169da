"""Several servers behind one name: `k8s+dns://name:port`."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from chaos import CARTPOLE, play
from kubernasium import errors
from kubernasium.env import Env
from kubernasium.launcher import Server
from kubernasium.protocol import connect
from kubernasium.vector import VectorEnv

NAME = "envs.default.svc"
ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Server]]:
    """Servers with one port at three addresses of loopback, behind one name."""
    first = Server(args=["--listen", "127.0.0.1:0"])
    port = urlsplit(first.ws_url).port
    servers = {ADDRESSES[0]: first}
    for address in ADDRESSES[1:]:
        servers[address] = Server(args=["--listen", f"{address}:{port}"])
    real = socket.getaddrinfo

    def resolve(name: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if name != NAME:
            return real(name, port, *args, **kwargs)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ADDRESSES]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    yield servers
    for server in servers.values():
        server.stop()


def url_of(fleet: dict[str, Server]) -> str:
    return f"k8s+dns://{NAME}:{urlsplit(fleet[ADDRESSES[0]].ws_url).port}"


def address_of(vector: Any) -> str:
    """Returns the address of the server that a vector is at."""
    return vector.connection.transport.sock.getpeername()[0]


def test_another_server_takes_over(fleet: dict[str, Server]) -> None:
    """Two of three servers are killed, and the trajectory is that of one server that is not."""
    with VectorEnv(CARTPOLE, 4, url=fleet[ADDRESSES[0]].ws_url) as undisturbed:
        want = play(undisturbed, 90)
    with VectorEnv(CARTPOLE, 4, url=url_of(fleet), weights=[1, 2, 1]) as envs:
        assert envs.vector.sizes == [1, 2, 1]
        assert [address_of(part) for part in envs.vector.parts] == list(ADDRESSES)

        def kill(t: int) -> None:
            if t in (30, 60):
                os.kill(fleet[ADDRESSES[t // 30 - 1]].pid, signal.SIGKILL)

        assert play(envs, 90, kill) == want
        assert [address_of(part) for part in envs.vector.parts] == [ADDRESSES[2]] * 3


def test_one_environment_has_stand_ins(fleet: dict[str, Server]) -> None:
    """An environment on one of several servers continues on another one."""
    urls = [server.ws_url for server in fleet.values()]
    with Env(CARTPOLE, url=urls[0]) as undisturbed:
        want = play(undisturbed, 90)
    for url in (urls, ",".join(urls)):
        with Env(CARTPOLE, url=url) as env:

            def kill(t: int, env: Env = env) -> None:
                if t == 30:
                    os.kill(fleet[address_of(env.vector)].pid, signal.SIGKILL)

            assert play(env, 90, kill) == want


def test_sessions_spread(fleet: dict[str, Server]) -> None:
    """Of 40 sessions each of three servers gets some; that one gets none has a chance below 3 × (2/3)⁴⁰ = 3e-7."""
    seen = set()
    for _ in range(40):
        with connect(url_of(fleet)) as connection:
            seen.add(connection.transport.sock.getpeername()[0])
    assert seen == set(ADDRESSES)


def test_nobody_answers(fleet: dict[str, Server]) -> None:
    for server in fleet.values():
        server.stop()
    with pytest.raises(
        errors.ConnectionLostError, match=r"no server behind k8s\+dns://envs\.default\.svc:\d+ answers: .*127\.0\.0\.3"
    ):
        connect(url_of(fleet))
    with pytest.raises(ValueError, match="want k8s\\+dns://name:port"):
        connect(f"k8s+dns://{NAME}")
    with pytest.raises(errors.ConnectionLostError, match=r"nowhere\.invalid"):
        connect("k8s+dns://nowhere.invalid:1")
