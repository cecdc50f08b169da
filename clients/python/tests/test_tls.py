"""Servers with certificates, and clients that show theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

import kubernasium
from kubernasium import aio
from kubernasium.errors import ConnectionLostError, UnauthenticatedError
from kubernasium.launcher import Server
from kubernasium.protocol import connect


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates of an authority, a server and a client, and of a client of another authority."""
    folder = tmp_path_factory.mktemp("certificates")
    ours, theirs = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name, certificate in {
        "server": ours.issue_cert("127.0.0.1"),
        "client": ours.issue_cert("client.test"),
        "stranger": theirs.issue_cert("client.test"),
    }.items():
        certificate.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
        certificate.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        certificate.private_key_and_cert_chain_pem.write_to_path(str(folder / f"{name}-both.pem"))
    return folder


@pytest.fixture(scope="module")
def secure(authority: Path) -> Iterator[Server]:
    files = {flag: str(authority / file) for flag, file in TLS_FILES.items()}
    with Server(args=["--listen", "127.0.0.1:0", *(word for pair in files.items() for word in pair)]) as server:
        yield server


TLS_FILES = {"--tls-cert": "server.pem", "--tls-key": "server.key", "--tls-client-ca": "ca.pem"}


@pytest.fixture
def trusting(authority: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a client that trusts the authority and has no certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "ca.pem"))
    monkeypatch.delenv("KUBERNASIUM_TOKEN", raising=False)
    return monkeypatch


def play(url: str) -> str:
    with connect(url, timeout=20, reconnect=0) as connection:
        return connection.server


async def play_async(url: str) -> None:
    async with aio.connect(url, timeout=20) as connection:
        env = await connection.make("classic/CartPole-v1")
        await env.close()


@pytest.mark.parametrize("files", [("client.pem", "client.key"), ("client-both.pem", "")])
def test_certificate(secure: Server, authority: Path, trusting: pytest.MonkeyPatch, files: tuple[str, str]) -> None:
    trusting.setenv("KUBERNASIUM_TLS_CERT", str(authority / files[0]))
    if files[1]:
        trusting.setenv("KUBERNASIUM_TLS_KEY", str(authority / files[1]))
    assert play(secure.ws_url).startswith("kubernasium/")
    asyncio.run(play_async(secure.ws_url))
    envs = kubernasium.make_vec("classic/CartPole-v1", 2, url=secure.ws_url)
    assert envs.reset(seed=1)[0].shape == (2, 4)
    envs.close()


def test_no_certificate(secure: Server, trusting: pytest.MonkeyPatch) -> None:
    for attempt in (lambda: play(secure.ws_url), lambda: asyncio.run(play_async(secure.ws_url))):
        with pytest.raises(UnauthenticatedError, match="KUBERNASIUM_TLS_CERT"):
            attempt()


def test_certificate_of_another_authority(secure: Server, authority: Path, trusting: pytest.MonkeyPatch) -> None:
    trusting.setenv("KUBERNASIUM_TLS_CERT", str(authority / "stranger-both.pem"))
    for attempt in (lambda: play(secure.ws_url), lambda: asyncio.run(play_async(secure.ws_url))):
        with pytest.raises(ConnectionLostError):
            attempt()


def test_server_of_another_authority(secure: Server, authority: Path, trusting: pytest.MonkeyPatch) -> None:
    trusting.delenv("SSL_CERT_FILE")
    trusting.setenv("KUBERNASIUM_TLS_CERT", str(authority / "client-both.pem"))
    with pytest.raises(ConnectionLostError, match="certificate verify failed"):
        play(secure.ws_url)
