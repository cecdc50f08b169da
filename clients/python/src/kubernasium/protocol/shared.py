"""Frames in memory that the client shares with a server on its machine: the optional part `shm` of the protocol.

Counters in the memory announce a request and its reply. A side that waits looks at them for a while before it sleeps,
and only a side that sleeps is woken, over the socket: most steps take no system call. A received frame is copied out
of the memory once, or lent: replies that are lent lie in two places in turn, so that one stays as it is until the
second request of this kind after its own.
"""

from __future__ import annotations

import array
import contextlib
import mmap
import os
import platform
import socket
import struct
import sys
import threading
from time import monotonic, perf_counter
from urllib.parse import parse_qs, urlsplit

from kubernasium.errors import ConnectionLostError, ProtocolError
from kubernasium.protocol.transport import START, Buffer, StreamTransport

SHM = "shm"
SWITCH = "KUBERNASIUM_SHM"  # environment variable that turns it off
AVAILABLE = sys.platform == "linux" and hasattr(socket, "SCM_RIGHTS")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if AVAILABLE else 1


# Places of counters and flags, in units of four bytes: of requests in the memory, and whether the client sleeps; of
# replies in it, and whether the server sleeps.
_CALLED, _ASLEEP, _REPLIED, _SERVER_ASLEEP = 0, 1, 16, 17
_CALL, _CALL_AT = struct.Struct("<IIII"), 16  # length and offset of the request, offset and room of its reply
_REPLY, _REPLY_AT = struct.Struct("<II"), 80  # length and offset of the reply
_INLINE = (1 << 32) - 1  # in place of an offset: the reply follows on the socket
_WAKE = bytes(4)  # a frame without bytes: look into the memory
_HEAD = 4096  # bytes at the beginning of the memory, for all of these
_REPLIES = 16 << 20  # offset of replies; between lie requests
_LINE = 64  # bytes to which the places of lent replies are aligned
_SPIN = 200e-6 if _cores() > 1 else 0.0  # seconds to look for a reply before the process sleeps
_ALONE = 25e-6  # of it, seconds before another process may have the core
_LOOKS = range(100)  # between two looks at the clock
_SKIPS = 64  # replies without a look at most, after looks in vain
_DESCRIPTOR = array.array("i", [0]).itemsize
_ORDERED = platform.machine() in ("x86_64", "AMD64")  # a processor does its reads, and its writes, in their order
_lock = threading.Lock()


def _fence() -> None:
    """Has all reads and writes of memory before it happen before those after it.

    A lock does that where `_ORDERED`, and the kernel's scheduler everywhere.
    """
    if _ORDERED and _lock.acquire(blocking=False):
        _lock.release()
    else:
        os.sched_yield()


class SharedTransport(StreamTransport):
    """Frames over a unix socket, some of which lie in shared memory.

    The memory holds one request and its reply. It takes a request only if `settled` says that the server has read all
    before it, so that their order is clear. Others go over the socket.
    """

    shares = True

    def __init__(self, sock: socket.socket, timeout: float | None) -> None:
        """Wraps a connected unix socket."""
        super().__init__(sock, timeout)
        self._memory: memoryview | None = None
        self._counts: memoryview | None = None
        self._answered = 0  # requests in the memory whose reply was received; the counter in the memory is of all
        self._skip = self._skips = 0  # replies until the next look; how many there were last
        self._room = 0  # bytes for a reply
        self._places: list[int] = []  # of replies that are lent, the last one first; empty until one is asked for
        self._at = 0  # place of the reply to the request in the memory
        self._lent = False  # whether that reply is
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
            if size >= _REPLIES + 4 * _LINE and self._descriptor >= 0:
                self._memory = memoryview(mmap.mmap(self._descriptor, size))
                self._counts = self._memory[:_HEAD].cast("I")
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
        settled, self.settled = self.settled, False
        lend, self.lend = self.lend, False
        size, counts = len(frame), self._counts
        if not settled or counts is None or counts[_CALLED] != self._answered or size > _REPLIES - _HEAD:
            self._write(self._LENGTH.pack(size) + frame)
            return
        memory = self._memory
        assert memory is not None
        memory[_HEAD : _HEAD + size] = frame
        self._lent, self._at = lend, self._place() if lend else _REPLIES + START
        _CALL.pack_into(memory, _CALL_AT, size, _HEAD, self._at, self._room)
        if not _ORDERED:
            _fence()
        counts[_CALLED] = self._answered + 1 & 0xFFFFFFFF
        if counts[_SERVER_ASLEEP]:
            self._write(_WAKE)

    def _place(self) -> int:
        """Returns the place of the next reply that is lent: the one of the last but one."""
        if not self._places:
            assert self._memory is not None
            each = (len(self._memory) - _REPLIES) // 3 // _LINE * _LINE
            self._places = [_REPLIES + each + _LINE, _REPLIES + 2 * each + _LINE]
            self._room = each - _LINE
        self._places.reverse()
        return self._places[0]

    def _look(self) -> bool:
        """Reports whether the reply has come to the memory, before it is time to sleep.

        To sleep, and to be woken, takes longer than most steps. The replies without a look double with each look in
        vain and shrink by one with each other.
        """
        if self._skip:
            self._skip -= 1
            return False
        counts, answered = self._counts, self._answered
        assert counts is not None
        start = perf_counter()
        while True:
            for _ in _LOOKS:
                if counts[_REPLIED] != answered:
                    self._skip = self._skips = max(0, self._skips - 1)
                    return True
            spent = perf_counter() - start
            if spent > _SPIN:
                break
            if spent > _ALONE:
                os.sched_yield()  # another process may wait for this core
        self._skip = self._skips = min(2 * self._skips + 1, _SKIPS)
        return False

    def recv(self) -> Buffer:
        """Returns the buffer of the next frame, which begins at START."""
        counts = self._counts
        if counts is None or counts[_CALLED] == self._answered:
            while len(frame := super().recv()) == START:  # it wakes a client that does not sleep any more
                pass
            return frame
        if self._held is None and _SPIN and self._look():
            return self._taken()
        counts[_ASLEEP] = 1
        try:
            while not self._replied():
                if not self._woken():
                    frame = super().recv()
                    if self._replied() and self._reply()[1] == _INLINE:
                        self._answered = counts[_REPLIED]  # that is this frame, or the next one
                    return frame
        finally:
            counts[_ASLEEP] = 0
        return self._taken()

    def ready(self, timeout: float) -> bool:
        """Reports whether `recv` finds at least a part of a frame within timeout seconds."""
        counts = self._counts
        if counts is None:
            return super().ready(timeout)
        end = monotonic() + timeout
        counts[_ASLEEP] = 1
        try:
            while not self._replied():
                if not super().ready(max(0.0, end - monotonic())):
                    return False
                if not self._woken():
                    break
        finally:
            counts[_ASLEEP] = 0
        return True

    def _replied(self) -> bool:
        """Reports whether the reply has come to the memory. If not, it wakes a server that has missed the request."""
        counts = self._counts
        assert counts is not None
        if counts[_REPLIED] != self._answered:
            return True
        _fence()  # between what this side has written, its flag and the request, and what it reads
        if counts[_REPLIED] != self._answered:
            return True
        if counts[_CALLED] != self._answered and counts[_SERVER_ASLEEP]:
            self._write(_WAKE)
        return False

    def _woken(self) -> bool:
        """Waits for input, and reports whether it only says to look into the memory."""
        buf, at = self._need(4)
        if self._LENGTH.unpack_from(buf, at)[0]:
            return False
        self._held = self._without(4)
        return True

    def _reply(self) -> tuple[int, int]:
        """Returns length and offset of the reply that the counter announces."""
        if not _ORDERED:
            _fence()
        assert self._memory is not None
        return _REPLY.unpack_from(self._memory, _REPLY_AT)

    def _taken(self) -> Buffer:
        """Returns the frame that the counter of replies announces."""
        memory, counts = self._memory, self._counts
        assert memory is not None
        assert counts is not None
        size, offset = self._reply()
        if offset == _INLINE:
            self._answered = counts[_REPLIED]
            return self.recv()
        if offset != self._at or size > self._room:
            raise ProtocolError(f"a reply of {size} bytes at {offset} of the shared memory")
        place = memory[offset - START : offset + size]
        frame = place if self._lent else bytearray(place)
        self._answered = counts[_REPLIED]
        return frame

    def close(self) -> None:
        """Closes the socket and frees the memory, once no frame that was lent is in use."""
        super().close()
        self._forget()

    def abandon(self) -> None:
        """Closes the socket without a word, and frees the memory."""
        super().abandon()
        self._forget()

    def _forget(self) -> None:
        self._memory = self._counts = None  # unmapped when the last array in it is gone
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
