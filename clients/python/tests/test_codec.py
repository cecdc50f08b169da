"""Frames: the golden ones that the server's tests read too, arrays, and malformed bytes."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from kubernasium.errors import ProtocolError
from kubernasium.protocol import decode, encode
from kubernasium.protocol.codec import ARRAY_EXT, DTYPES, array_header, decode_array
from kubernasium.protocol.layout import Layout, read_id
from kubernasium.protocol.transport import START

FRAMES = Path(__file__).resolve().parents[3] / "server" / "wire" / "testdata" / "frames.json"
GOLDEN = json.loads(FRAMES.read_text(encoding="utf-8"))
NAMES = [frame["name"] for frame in GOLDEN]


def matches(got: Any, want: Any) -> bool:
    """Compares a decoded value with its description in frames.json."""
    if isinstance(got, np.ndarray):
        values = np.array(want["data"], got.dtype).reshape(want["shape"])
        return str(got.dtype) == want["dtype"] and got.shape == values.shape and bool((got == values).all())
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(matches(got[k], want[k]) for k in want)
    if isinstance(want, list):
        return len(got) == len(want) and all(matches(g, w) for g, w in zip(got, want, strict=True))
    if want in ("inf", "-inf"):
        return bool(got == float(want))
    return bool(got == want)


def buffer(frame: bytes) -> bytearray:
    """Returns a frame as a transport receives it."""
    return bytearray(START) + frame


@pytest.mark.parametrize("golden", GOLDEN, ids=NAMES)
def test_golden_frames(golden: dict[str, Any]) -> None:
    frame = bytes.fromhex(golden["hex"])
    assert matches(decode(frame), golden["decoded"])
    buf = buffer(frame)
    layout = Layout(buf, START)
    assert matches(layout.frame(buf), golden["decoded"])
    assert read_id(buf, layout) == golden["decoded"]["id"]
    if "decoded" in golden and golden["decoded"]["t"] in (
        "hello",
        "make",
        "reset",
        "step",
        "policy",
        "rollout",
        "snapshot",
        "fork",
        "forget",
    ):
        assert encode(decode(frame)).hex() == golden["hex"]


def test_step_of_the_reference() -> None:
    """The worked example of section 4 of the protocol, byte for byte."""
    want = "84 a174a473746570 a2696403 a365696401 a161 c71a4e 00070102 02000000 0000 0100000000000000 0000000000000000"
    got = encode({"t": "step", "id": 3, "eid": 1, "a": np.array([1, 0])})
    assert got == bytes.fromhex(want)


@pytest.mark.parametrize("dtype", [d.name for d in DTYPES.values()])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 0, 4), (5, 7), (64, 65), (3, 5, 2048)])
def test_arrays_round_trip(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    array = np.asarray(rng.random(shape) * (2 if dtype == "bool" else 99)).astype(dtype)
    for offset_key in ("a", "key", "a longer key"):
        frame = encode({"t": "x", offset_key: array})
        got = decode(frame)[offset_key]
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)
        buf = buffer(frame)
        view = Layout(buf, START).view(buf)[offset_key]
        np.testing.assert_array_equal(view, array)
        assert view.flags.writeable
        assert view.flags.aligned or not array.size
        if array.size:
            start = frame.rindex(array.tobytes())
            assert start % (64 if array.nbytes >= 4096 else 8) == 0


def test_big_endian_and_strided_arrays() -> None:
    array = np.arange(12, dtype=">i4").reshape(3, 4)[:, ::2]
    np.testing.assert_array_equal(decode(encode({"a": array}))["a"], array)


def test_bfloat16_is_read_as_float32() -> None:
    payload = bytes([0, 12, 1, 0]) + (3).to_bytes(4, "little") + bytes.fromhex("803f 00c0 807f")
    want = np.array([1, -2, np.inf], np.float32)
    np.testing.assert_array_equal(decode_array(payload), want)
    buf = buffer(msgpack.packb({"a": msgpack.ExtType(ARRAY_EXT, payload)}))
    np.testing.assert_array_equal(Layout(buf, START).view(buf)["a"], want)


def test_other_values() -> None:
    message = {
        "none": None, "true": True, "int": -7, "big": 2**63, "float": 1.5, "str": "é" * 40, "bytes": b"ab",
        "list": [1, [2, {"k": "v"}]], "map": {f"k{i}": i for i in range(20)}, "np": np.float32(0.5),
        "long": list(range(70000)), "array in list": [np.arange(3)],
    }  # fmt: skip
    want = message | {"array in list": [[0, 1, 2]]}
    frame = encode(message)
    assert decode(frame) == want
    buf = buffer(frame)
    assert Layout(buf, START).view(buf) == want


@pytest.mark.parametrize(
    "payload",
    ["", "000701", "010701000100000000000000", "000d0000", "00070900" + "01000000" * 9, "00070140" + "00000000",
     "0007010002000000" + "00" * 8, "0007020000000080000000800000", "00070101010000"],
)  # fmt: skip
def test_malformed_arrays(payload: str) -> None:
    data = bytes.fromhex(payload)
    frame = msgpack.packb({"t": "x", "a": msgpack.ExtType(ARRAY_EXT, data)})
    with pytest.raises(ProtocolError):
        decode(frame)
    with pytest.raises(ProtocolError):
        Layout(buffer(frame), START)


@pytest.mark.parametrize(
    "frame", ["", "c0", "93010203", "8101c0", "82a174a178", "81a174c1", "a16181a174a178", "df7fffffff"]
)
def test_malformed_frames(frame: str) -> None:
    with pytest.raises(ProtocolError):
        decode(bytes.fromhex(frame))
    with pytest.raises(ProtocolError):
        Layout(buffer(bytes.fromhex(frame)), START)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ProtocolError):
        Layout(buffer(b"\x81\xa1a" + b"\x91" * 5000 + b"\xc0"), START)


def test_random_damage_is_always_a_protocol_error() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        frame = bytearray.fromhex(rng.choice(GOLDEN)["hex"])
        for _ in range(rng.randint(1, 4)):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        frame = frame[: rng.randint(1, len(frame))]
        for read in (decode, lambda data: Layout(buffer(bytes(data)), START)):
            with contextlib.suppress(ProtocolError):
                read(frame)


def test_layout_recognises_its_frames_only() -> None:
    def frame(rid: int, reward: float, name: str = "te", flag: bool = True) -> bytearray:
        message = {"t": "step.ok", "id": rid, "r": np.array([reward]), name: np.array([flag])}
        return buffer(encode(message))

    first = frame(1 << 32, 1.5)
    layout = Layout(first, START)
    other = frame((1 << 32) + 9, -2.0, flag=False)
    assert layout.matches(first)
    assert layout.matches(other)
    assert read_id(other, layout) == (1 << 32) + 9
    assert layout.view(other)["r"][0] == -2.0
    assert not layout.matches(frame(1 << 32, 1.5, name="tr"))


def test_header_is_as_long_as_it_says() -> None:
    for size in range(300):
        array = np.zeros(size, np.uint8)
        for offset in range(0, 70, 7):
            header = array_header(array, offset)
            ext = msgpack.unpackb(header + array.tobytes())
            assert ext.code == ARRAY_EXT
            assert decode_array(ext.data).shape == (size,)
