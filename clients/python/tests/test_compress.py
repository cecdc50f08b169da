"""Compressed frames: `?compress=zstd` in a server's URL."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np
import pytest

from chaos import Digest
from kubernasium import aio, errors
from kubernasium.launcher import Server
from kubernasium.protocol import connect, packing
from kubernasium.protocol.packing import PackedTransport, Packer
from kubernasium.vector import VectorEnv

GANG = "k8s/GangWindow-v0"
N, STEPS = 128, 20


class Sizes:
    """Bytes of frames before and after they are compressed or restored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent, self.received = [0, 0], [0, 0]
        pack, unpack = Packer.pack, Packer.unpack

        def count_pack(packer: Packer, frame: bytes) -> bytes:
            packed = pack(packer, frame)
            self.sent[0] += len(frame)
            self.sent[1] += len(packed)
            return packed

        def count_unpack(packer: Packer, packed: Any) -> bytes | None:
            frame = unpack(packer, packed)
            self.received[0] += len(packed if frame is None else frame)
            self.received[1] += len(packed)
            return frame

        monkeypatch.setattr(Packer, "pack", count_pack)
        monkeypatch.setattr(Packer, "unpack", count_unpack)


def play(envs: VectorEnv, cut: bool) -> str:
    digest = Digest()
    digest.add(envs.reset(seed=3)[0])
    for k in range(STEPS):
        if cut and k % 7 == 3:
            envs.vector.connection.transport.abandon()
        obs, rewards, *_ = envs.step((np.arange(N) + k) % 4)
        digest.add(obs)
        digest.add(rewards)
    return digest.hex()


@pytest.mark.parametrize("kind", ["unix", "websocket", "cut wires"])
def test_equal_episodes_in_fewer_bytes(server: Server, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.url if kind == "unix" else server.ws_url
    with VectorEnv(GANG, N, url=url) as envs:
        want = play(envs, cut=False)
    sizes = Sizes(monkeypatch)
    with VectorEnv(GANG, N, url=f"{url}?compress=zstd") as envs:
        assert isinstance(envs.vector.connection.transport, PackedTransport)
        assert play(envs, cut=kind == "cut wires") == want
    for whole, packed in (sizes.sent, sizes.received):
        assert 0 < packed < 0.8 * whole


def test_asyncio(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(url: str) -> list[np.ndarray]:
        async with aio.connect(url) as session:
            envs = await session.make(GANG, N)
            first, _ = await envs.reset(seed=1)
            return [first, *[(await envs.step((np.arange(N) + k) % 4))[0] for k in range(STEPS)]]

    want = asyncio.run(play(server.ws_url))
    sizes = Sizes(monkeypatch)
    got = asyncio.run(play(f"{server.ws_url}?compress=zstd"))
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
    assert 0 < sizes.received[1] < sizes.received[0]


def test_an_interrupt_loses_no_frame(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack, left = Packer.unpack, [1]

    def interrupted(packer: Packer, packed: Any) -> bytes | None:
        if left:
            left.pop()
            raise KeyboardInterrupt
        return unpack(packer, packed)

    with connect(f"{server.url}?compress=zstd") as connection:
        monkeypatch.setattr(Packer, "unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            connection.request("envs")
        assert not connection.cancelled  # its reply was there
        assert len(connection.request("envs", filter="CartPole")["envs"]) == 1


def test_frames_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import zstandard

    packer = Packer()
    frame = b"0123456789" * 100
    good = packer.pack(frame)
    assert packer.unpack(good) == frame
    assert packer.unpack(frame) is None
    stream = zstandard.ZstdCompressor().compressobj()  # its header has no size
    for bad in (good[:-1], good[:4], good + good, stream.compress(frame) + stream.flush()):
        with pytest.raises(errors.ProtocolError, match="a compressed frame"):
            packer.unpack(bad)
    monkeypatch.setattr(packing, "MAX_FRAME", 999)
    with pytest.raises(errors.ProtocolError, match="of 1000 bytes"):
        packer.unpack(good)


def test_what_is_asked_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"compress=gzip in .*, want zstd"):
        connect(f"{server.url}?compress=gzip")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match=r"pip install 'kubernasium\[zstd\]'"):
        connect(f"{server.url}?compress=zstd")
