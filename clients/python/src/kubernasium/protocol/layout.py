"""Fast reading of the replies that recur at every step.

Two replies of one length to the same kind of request nearly always differ in the elements of
their arrays and in their id only. A `Layout` holds what they share. It is built once, by taking
a frame apart; a later frame of that length is compared with it in one call, and its arrays
are then views of the frame at known places.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import msgpack
import numpy as np

from kubernasium.errors import ProtocolError
from kubernasium.protocol.codec import ARRAY_EXT, BFLOAT16, DTYPES, array_spec, widen_bfloat16
from kubernasium.protocol.transport import Buffer

_DEPTH = 32
_ID = struct.Struct(">Q")
_FIXEXT = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_EXT = {0xC7: struct.Struct(">B"), 0xC8: struct.Struct(">H"), 0xC9: struct.Struct(">I")}
_MAP = {0xDE: struct.Struct(">H"), 0xDF: struct.Struct(">I")}
_STR = {0xD9: struct.Struct(">B"), 0xDA: struct.Struct(">H"), 0xDB: struct.Struct(">I")}
# Sizes of the other types of constant length, the first byte included.
_SCALAR = {0xC0: 1, 0xC2: 1, 0xC3: 1, 0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}
_SCALAR |= {0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}


class Field:
    """An array's place in a frame: dtype, shape, and offset in the buffer of the frame."""

    __slots__ = ("code", "dtype", "offset", "shape")

    def __init__(self, code: int, shape: tuple[int, ...], offset: int) -> None:
        self.code = code
        self.dtype = np.dtype("<u2") if code == BFLOAT16 else DTYPES[code]
        self.shape = shape
        self.offset = offset

    def view(self, buf: Buffer) -> np.ndarray:
        """Returns the array in buf, without a copy."""
        array = np.ndarray(self.shape, self.dtype, buf, self.offset)
        return widen_bfloat16(array) if self.code == BFLOAT16 else array


class Layout:
    """The structure of a frame.

    Attributes:
        message: the frame as a map, in which arrays are `Field`s; maps are nested.
        id_at: offset of the 8 bytes of the id, or -1 if the id is written shorter.
        unpack: reads from a buffer the bytes that all frames of this layout share.
        consts: what `unpack` returns for them.
        reader: for users of the layout, to keep what they derive from it.
        kind: of the requests that such a frame was checked for; "" if it was not.
        numbers: the arrays of numbers of environments, to be checked in each frame by `checks.check_rows`.
    """

    __slots__ = ("_plan", "consts", "id_at", "kind", "message", "numbers", "reader", "unpack")

    def __init__(self, buf: Buffer, start: int) -> None:
        scanner = _Scanner(buf)
        message, end = scanner.value(start, 0)
        if not isinstance(message, dict) or end != len(buf):
            raise ProtocolError("a frame that is not one map")
        self.message: dict[str, Any] = message
        self.reader: Any = None
        self.kind = ""
        self.numbers: list[tuple[str, Field]] = []
        self._plan = _Plan({key: value for key, value in message.items() if key != "id"})
        self.id_at = scanner.id_at
        holes = sorted(scanner.holes)
        fmt, pos = ">", 0
        if start:
            fmt, pos = f">{start}x", start
        for at, size in holes:
            fmt += f"{at - pos}s{size}x"
            pos = at + size
        fmt += f"{len(buf) - pos}s"
        shared = struct.Struct(fmt)
        self.unpack = shared.unpack_from
        self.consts = shared.unpack_from(buf)

    def matches(self, buf: Buffer) -> bool:
        """Reports whether buf, of the length of this layout, is a frame of this layout."""
        return self.unpack(buf) == self.consts

    def view(self, buf: Buffer) -> dict[str, Any]:
        """Returns the message in buf without its id, its arrays as views of buf."""
        return self._plan.view(buf)

    def frame(self, buf: Buffer) -> dict[str, Any]:
        """Returns the whole message in buf, its id included."""
        return self._plan.view(buf) | {"id": read_id(buf, self)}


class _Plan:
    """What to do for a map in which arrays are `Field`s: as little as possible for each frame."""

    __slots__ = ("arrays", "maps", "plain", "wide")

    def __init__(self, message: dict[str, Any]) -> None:
        fields = [(key, value) for key, value in message.items() if isinstance(value, Field)]
        self.arrays = [(key, f.shape, f.dtype, f.offset) for key, f in fields if f.code != BFLOAT16]
        self.wide = [(key, f) for key, f in fields if f.code == BFLOAT16]
        self.maps = [(key, _Plan(value)) for key, value in message.items() if isinstance(value, dict)]
        self.plain = {key: value for key, value in message.items() if not isinstance(value, (Field, dict))}

    def view(self, buf: Buffer) -> dict[str, Any]:
        out = self.plain.copy()
        for key, shape, dtype, offset in self.arrays:
            out[key] = np.ndarray(shape, dtype, buf, offset)
        for key, part in self.maps:
            out[key] = part.view(buf)
        for key, field in self.wide:
            out[key] = field.view(buf)
        return out


class _Scanner:
    """Takes a frame apart and notes the bytes that differ from reply to reply."""

    def __init__(self, buf: Buffer) -> None:
        self.buf = buf
        self.holes: list[tuple[int, int]] = []
        self.id_at = -1

    def value(self, pos: int, depth: int) -> tuple[Any, int]:
        """Returns the value at pos and the position after it."""
        try:
            return self._value(pos, depth)
        except (IndexError, struct.error, ValueError) as err:
            raise ProtocolError(f"malformed frame: {err}") from err

    def _value(self, pos: int, depth: int) -> tuple[Any, int]:
        if depth > _DEPTH:
            raise ProtocolError(f"a frame nested deeper than {_DEPTH}")
        first = self.buf[pos]
        if first >> 4 == 0x8:
            return self._map(pos + 1, first & 0xF, depth)
        if first in _MAP:
            head = _MAP[first]
            return self._map(pos + 1 + head.size, head.unpack_from(self.buf, pos + 1)[0], depth)
        if first in _FIXEXT:
            return self._ext(pos + 1, _FIXEXT[first])
        if first in _EXT:
            head = _EXT[first]
            return self._ext(pos + 1 + head.size, head.unpack_from(self.buf, pos + 1)[0])
        if first >> 4 == 0x9 or first in (0xDC, 0xDD):
            return self._array(pos, depth)
        end = self._end(pos, first)
        return msgpack.unpackb(bytes(self._slice(pos, end))), end

    def _end(self, pos: int, first: int) -> int:
        """Returns the position after the scalar or string at pos."""
        if first < 0x80 or first >= 0xE0:
            return pos + 1
        if first >> 5 == 0b101:
            return pos + 1 + (first & 0x1F)
        if first in _SCALAR:
            return pos + _SCALAR[first]
        if first in _STR or first in (0xC4, 0xC5, 0xC6):
            head = _STR.get(first) or _STR[first + 0xD9 - 0xC4]
            return pos + 1 + head.size + int(head.unpack_from(self.buf, pos + 1)[0])
        raise ProtocolError(f"malformed frame: byte 0x{first:02x}")

    def _slice(self, pos: int, end: int) -> Buffer:
        if end > len(self.buf):
            raise ProtocolError("malformed frame: it ends too early")
        return self.buf[pos:end]

    def _map(self, pos: int, n: int, depth: int) -> tuple[dict[str, Any], int]:
        out: dict[str, Any] = {}
        for _ in range(n):
            key, pos = self.value(pos, depth + 1)
            if not isinstance(key, str):
                raise ProtocolError("a map with a key that is not a string")
            if depth == 0 and key == "id" and self.buf[pos] == 0xCF:
                self.id_at = pos + 1
                self.holes.append((pos + 1, 8))
            out[key], pos = self.value(pos, depth + 1)
        return out, pos

    def _array(self, pos: int, depth: int) -> tuple[list[Any], int]:
        first = self.buf[pos]
        if first >> 4 == 0x9:
            n, pos = first & 0xF, pos + 1
        else:
            head = _MAP[first + 0xDE - 0xDC]
            n, pos = head.unpack_from(self.buf, pos + 1)[0], pos + 1 + head.size
        out = []
        for _ in range(n):
            value, pos = self.value(pos, depth + 1)
            out.append(value)
        return out, pos

    def _ext(self, pos: int, size: int) -> tuple[Any, int]:
        """Reads an extension whose type stands at pos and whose payload has size bytes."""
        end = pos + 1 + size
        if end > len(self.buf):
            raise ProtocolError("malformed frame: it ends too early")
        if self.buf[pos] != ARRAY_EXT:
            return msgpack.ExtType(self.buf[pos], bytes(self.buf[pos + 1 : end])), end
        code, shape, start = array_spec(memoryview(self.buf)[pos + 1 : end])
        if math.prod(shape):
            self.holes.append((pos + 1 + start, end - pos - 1 - start))
        return Field(code, shape, pos + 1 + start), end


def read_id(buf: Buffer, layout: Layout) -> Any:
    """Returns the id of a frame of layout: an integer, if the server is right."""
    if layout.id_at >= 0:
        return int(_ID.unpack_from(buf, layout.id_at)[0])
    return layout.message.get("id")
