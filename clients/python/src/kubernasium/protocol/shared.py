"""Frames in memory that the client shares with a server on its machine: the optional part `shm` of the protocol.

The socket tells where a frame lies, so it keeps the order and wakes the other side. A received frame is copied out of
the memory once. Small frames go over the socket, which costs them less.
"""

from __future__ import annotations

import array
import contextlib
import mmap
import os
import socket
import struct
import sys
from time import perf_counter
from urllib.parse import parse_qs, urlsplit

from kubernasium.errors import ConnectionLostError, ProtocolError
from kubernasium.protocol.transport import START, StreamTransport

SHM = "shm"
SWITCH = "KUBERNASIUM_SHM"  # environment variable that turns it off
AVAILABLE = sys.platform == "linux" and hasattr(socket, "SCM_RIGHTS")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if AVAILABLE else 1


_MARK = 1 << 31  # in a length: the frame lies in the memory
_INLINE = (1 << 32) - 1  # in place of an offset: the frame follows on the socket
_COUNTS = 4096  # bytes at the beginning of the memory, for counters of frames
_SENT, _WRITTEN = 0, 16  # places of those of this side and of the server, in units of four bytes
_REPLIES = 16 << 20  # offset of replies; between lie requests
_SMALL = 4096  # bytes of requests and replies from which the memory is faster
_SPIN = 200e-6 if _cores() > 1 else 0.0  # seconds to look for a reply before the process sleeps
_ALONE = 25e-6  # of it, seconds before another process may have the core
_LOOKS = range(100)  # between two looks at the clock
_SKIPS = 64  # replies without a look at most, after looks in vain
_CALL = struct.Struct("<IIII")  # length and offset of a request, offset and room of its reply
_REPLY = struct.Struct("<II")  # length and offset of a reply
_DESCRIPTOR = array.array("i", [0]).itemsize


class SharedTransport(StreamTransport):
    """Frames over a unix socket, some of which lie in shared memory.

    The memory holds one request and its reply. While that is outstanding, other requests go over the socket.
    """

    shares = True

    def __init__(self, sock: socket.socket, timeout: float | None) -> None:
        """Wraps a connected unix socket."""
        super().__init__(sock, timeout)
        self._memory: memoryview | None = None
        self._counts: memoryview | None = None
        self._sent = 0  # frames since the memory is shared
        self._waiting = 0  # of them, those without a reply
        self._seen = 0  # the server's count of its frames, of which all were received
        self._skip = self._skips = 0  # replies until the next look; how many there were last
        self._busy = False  # a request lies in the memory, and its reply has not come
        self._room = 0  # bytes for a reply
        self._descriptor = -1  # of the memory, between the receipt of the welcome and `share`
        self._recv_into = self._recv_descriptor  # type: ignore[method-assign, assignment]

    def _recv_descriptor(self, buffer: memoryview, size: int = 0, flags: int = 0) -> int:
        """Is `recv_into` that also takes in a descriptor."""
        count, extra, _, _ = self.sock.recvmsg_into(
            [buffer[:size] if size else buffer], socket.CMSG_SPACE(_DESCRIPTOR), flags | socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, data in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS and len(data) >= _DESCRIPTOR:
                self._drop_descriptor()
                self._descriptor = array.array("i", data[:_DESCRIPTOR])[0]
        return count

    def share(self, size: int) -> None:
        """Maps the memory that the welcome offers.

        Args:
            size: its bytes; 0 is none.
        """
        self._recv_into = self.sock.recv_into
        try:
            if size > _REPLIES + START and self._descriptor >= 0:
                self._memory = memoryview(mmap.mmap(self._descriptor, size))
                self._counts = self._memory[:_COUNTS].cast("I")
                self._seen = self._counts[_WRITTEN]
                self._room = size - _REPLIES - START
        except (OSError, ValueError):  # the system refuses it: the socket carries everything
            pass
        finally:
            self._drop_descriptor()

    def _drop_descriptor(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def send(self, frame: bytes) -> None:
        """Sends a frame."""
        size, counts = len(frame), self._counts
        if counts is not None and not self._waiting:
            self._seen = counts[_WRITTEN]
        if self._memory is None or self._busy or (size < _SMALL and self._expect < _SMALL) or size > _REPLIES - _COUNTS:
            self._write(self._LENGTH.pack(size) + frame)
        else:
            self._memory[_COUNTS : _COUNTS + size] = frame
            self._busy = True
            self._write(_CALL.pack(_MARK | size, _COUNTS, _REPLIES + START, self._room))
        if counts is not None:
            self._waiting += 1
            counts[_SENT] = self._sent = (self._sent + 1) & 0xFFFFFFFF

    def _spin(self) -> None:
        """Returns when the next frame has come, or when it is time to sleep.

        To sleep, and to be woken, takes longer than most steps. The replies without a look double with each look in
        vain and shrink by one with each other.
        """
        if self._skip:
            self._skip -= 1
            return
        counts, seen = self._counts, self._seen
        assert counts is not None
        start = perf_counter()
        while True:
            for _ in _LOOKS:
                if counts[_WRITTEN] != seen:
                    self._skip = self._skips = max(0, self._skips - 1)
                    return
            spent = perf_counter() - start
            if spent > _SPIN:
                break
            if spent > _ALONE:
                os.sched_yield()  # another process may wait for this core
        self._skip = self._skips = min(2 * self._skips + 1, _SKIPS)

    def recv(self) -> bytearray:
        """Returns the buffer of the next frame, which begins at START."""
        if self._counts is None:
            return super().recv()
        if self._held is None and _SPIN:
            self._spin()
        frame = self._recv_shared() if self._busy else super().recv()
        self._seen = (self._seen + 1) & 0xFFFFFFFF
        self._waiting = max(0, self._waiting - 1)  # events are no replies
        return frame

    def _recv_shared(self) -> bytearray:
        """Returns the next frame, which most often lies in the memory."""
        if self._held is None:
            buf = bytearray(START - 4 + _REPLY.size)
            counts: list[int] = []
            self._held = (buf, START - 4, counts)
            try:
                counts += map(self._recv_into, (memoryview(buf)[START - 4 :],))
            except OSError as err:
                raise self._failure(err, "receive from") from err
            if not counts[0]:
                raise ConnectionLostError("the server closed the connection")
        buf, at = self._need(4)
        if not buf[at + 3] & _MARK >> 24:
            return super().recv()
        buf, at = self._need(_REPLY.size)
        size, offset = _REPLY.unpack_from(buf, at)
        size &= _MARK - 1
        if offset == _INLINE:
            buf, at = self._need(_REPLY.size + size)
            frame = bytearray(START) + memoryview(buf)[at + _REPLY.size : at + _REPLY.size + size]
            rest = self._without(_REPLY.size + size)
        elif offset == _REPLIES + START and size <= self._room:
            assert self._memory is not None
            frame = bytearray(self._memory[_REPLIES : offset + size])
            rest = self._without(_REPLY.size)
        else:
            raise ProtocolError(f"a reply of {size} bytes at {offset} of the shared memory")
        self._expect, self._busy, self._held = size, False, rest
        return frame

    def close(self) -> None:
        """Closes the socket and frees the memory."""
        super().close()
        self._forget()

    def abandon(self) -> None:
        """Closes the socket without a word, and frees the memory."""
        super().abandon()
        self._forget()

    def _forget(self) -> None:
        self._memory = self._counts = None
        self._drop_descriptor()


def shares(url: str = "") -> bool:
    """Reports whether memory may be shared with the server at a `unix:` URL.

    Args:
        url: of the server; `?shm=0` at its end says no.

    Raises:
        ValueError: the URL says neither 0 nor 1.
    """
    asked = parse_qs(urlsplit(url).query).get("shm", ["1"])
    if asked not in (["0"], ["1"]):
        raise ValueError(f"shm={','.join(asked)} in {url!r}, want 0 or 1")
    return AVAILABLE and asked == ["1"] and os.environ.get(SWITCH, "1") != "0"


def connect_unix(path: str, timeout: float | None, share: bool = True) -> StreamTransport:
    """Connects to the unix socket at path.

    Args:
        path: of the socket.
        timeout: seconds to wait for the connection and, later, for each reply.
        share: whether frames may lie in shared memory, if system and server can do that.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
    except OSError as err:
        sock.close()
        raise ConnectionLostError(f"connect to {path}: {err}") from err
    return SharedTransport(sock, timeout) if share else StreamTransport(sock, timeout)
