"""Frames of the protocol: MessagePack maps with arrays as extensions.

`encode` writes requests and `decode` reads any frame. Replies that recur at every step are
read by module `layout`, which is faster.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from kubernasium.errors import ProtocolError

ARRAY_EXT = 0x4E
MAX_NDIM = 8

# dtype code of the protocol → dtype. bfloat16 (12), which NumPy lacks, is read as float32.
DTYPES: dict[int, np.dtype] = {
    code: np.dtype(name)
    for code, name in enumerate(["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"])
}
BFLOAT16 = 12
_CODES = {dtype: code for code, dtype in DTYPES.items()}


def array_header(array: np.ndarray, offset: int) -> bytes:
    """Returns the bytes that stand before the elements of array in a frame.

    Args:
        array: an array of a dtype of the protocol.
        offset: position in the frame at which the extension begins.

    Raises:
        TypeError: the dtype cannot be sent.
    """
    code = _CODES.get(array.dtype.newbyteorder("<"))
    if code is None or array.ndim > MAX_NDIM:
        raise TypeError(f"array of dtype {array.dtype} and {array.ndim} dimensions cannot be sent")
    align = 64 if array.nbytes >= 4096 else 8
    fixed = 4 + 4 * array.ndim
    # A longer payload may need a longer extension header, which moves the elements again.
    for pad in range(64):
        start = _ext_header(fixed + pad + array.nbytes)
        if (offset + len(start) + fixed + pad) % align == 0:
            break
    shape = struct.pack(f"<{array.ndim}I", *array.shape)
    return start + bytes([0, code, array.ndim, pad]) + shape + bytes(pad)


def _ext_header(size: int) -> bytes:
    """Returns what MessagePack puts before the payload of an array's extension."""
    if size in (1, 2, 4, 8, 16):
        return bytes([0xD4 + (1, 2, 4, 8, 16).index(size), ARRAY_EXT])
    if size <= 0xFF:
        return struct.pack(">BBB", 0xC7, size, ARRAY_EXT)
    if size <= 0xFFFF:
        return struct.pack(">BHB", 0xC8, size, ARRAY_EXT)
    return struct.pack(">BIB", 0xC9, size, ARRAY_EXT)


def encode(message: Mapping[str, Any]) -> bytes:
    """Returns the frame of message.

    Args:
        message: map with string keys. Values are None, bool, int, float, str, bytes, paths,
            lists, maps with string keys, and NumPy arrays and scalars. Arrays directly in maps are
            sent as arrays, arrays within lists as lists.
    """
    out = bytearray()
    _encode_map(message, out)
    return bytes(out)


def _encode_map(message: Mapping[str, Any], out: bytearray) -> None:
    n = len(message)
    out += bytes([0x80 | n]) if n < 16 else struct.pack(">BH", 0xDE, n)
    for key, value in message.items():
        out += msgpack.packb(key)
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            out += array_header(value, len(out))
            out += np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
        elif isinstance(value, Mapping):
            _encode_map(value, out)
        else:
            out += msgpack.packb(value, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, int):
        raise TypeError(f"{value} cannot be sent: it has more than 64 bits")
    raise TypeError(f"{type(value).__name__} cannot be sent")


def array_spec(payload: bytes | bytearray | memoryview) -> tuple[int, tuple[int, ...], int]:
    """Reads the header of an array's payload.

    Returns:
        The dtype's code, the shape, and the offset of the elements in payload.

    Raises:
        ProtocolError: the payload is not an array of the protocol.
    """
    if len(payload) < 4:
        raise ProtocolError(f"array of {len(payload)} bytes, want at least 4")
    flags, code, ndim, pad = payload[0], payload[1], payload[2], payload[3]
    if flags != 0 or code > BFLOAT16 or ndim > MAX_NDIM or pad > 63:
        raise ProtocolError(f"array with flags {flags}, dtype {code}, {ndim} dimensions, padding {pad}")
    start = 4 + 4 * ndim + pad
    if len(payload) < start:
        raise ProtocolError(f"array of {len(payload)} bytes ends in its header")
    shape = struct.unpack_from(f"<{ndim}I", payload, 4)
    itemsize = 2 if code == BFLOAT16 else DTYPES[code].itemsize
    want = start + math.prod(shape) * itemsize
    if len(payload) != want:
        raise ProtocolError(f"array of shape {shape} has {len(payload)} bytes, want {want}")
    return code, shape, start


def widen_bfloat16(bits: np.ndarray) -> np.ndarray:
    """Returns bfloat16, given as uint16, as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def decode_array(payload: bytes) -> np.ndarray:
    """Returns the array of an extension's payload. It is a writable copy."""
    code, shape, start = array_spec(payload)
    if code == BFLOAT16:
        return widen_bfloat16(np.frombuffer(payload, "<u2", offset=start)).reshape(shape)
    return np.frombuffer(payload, DTYPES[code], offset=start).reshape(shape).copy()


def _ext_hook(code: int, data: bytes) -> Any:
    return decode_array(data) if code == ARRAY_EXT else msgpack.ExtType(code, data)


def decode(frame: bytes | bytearray | memoryview) -> dict[str, Any]:
    """Returns the message of a frame.

    Raises:
        ProtocolError: the frame is not one map with string keys.
    """
    try:
        message = msgpack.unpackb(frame, ext_hook=_ext_hook, strict_map_key=True)
    except ProtocolError:
        raise
    except Exception as err:  # msgpack raises exceptions of many classes for malformed bytes
        raise ProtocolError(f"malformed frame: {type(err).__name__}: {err}") from err
    if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
        raise ProtocolError("a frame that is not a map with string keys")
    return message
