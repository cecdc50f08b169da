"""Ways to carry frames: a stream socket with length prefixes, and what WebSocket shares.

A received frame lies in a `bytearray` of its own from offset `START` to its end, so that its
arrays are writable, aligned, and valid for as long as they are used. A frame that `lend` has asked for may
instead be a `memoryview` of shared memory.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import sys
from abc import ABC, abstractmethod

from kubernasium.errors import ConnectionLostError, ProtocolError, ReplyTimeoutError

START = 16  # of the payload in a received buffer: a multiple of 8 that any header fits before
MAX_FRAME = 1 << 30
Buffer = bytearray | memoryview  # of a received frame, which begins at START
_FIRST = 64 << 20  # bytes of memory that a frame gets before it comes; beyond that it must come
SLACK = 128  # bytes by which a frame is often longer than the last one: that an episode ended


class Transport(ABC):
    """A connected socket that carries frames. It is not safe for concurrent use.

    A signal handler may raise an exception, such as KeyboardInterrupt, within any call. Bytes that
    a system call has moved are nonetheless counted, and the next call resumes there. Python
    delivers signals when a call has ended, and then its result is lost. So the results of `send`
    and `recv_into` go into a list within one operation, `counts += map(...)`.
    """

    leased = False  # whether a session outlives its connection, if its client asks for that
    shares = False  # whether frames may lie in memory that the server shares
    settled = False  # whether the last request was answered, so that the server has read all; `send` takes it back
    lend = False  # whether the reply to the next request may stay in shared memory; `send` takes it back

    def __init__(self, sock: socket.socket, timeout: float | None) -> None:
        self.sock = sock
        self.timeout = timeout
        self._secure = isinstance(sock, ssl.SSLSocket)
        self._wait_all = 0 if self._secure else socket.MSG_WAITALL
        self._recv_into = sock.recv_into
        self._send = sock.send
        self._expect = SLACK  # length of the last frame
        # Input that no caller has got yet: a buffer, where the input begins in it, and the numbers
        # of bytes received. It begins where a frame, or a part of a WebSocket message, begins.
        self._held: tuple[bytearray, int, list[int]] | None = None
        # Output of a call that did not return: the data, and the numbers of bytes sent.
        self._unsent: tuple[bytes, list[int]] | None = None
        self._torn = False  # an exception may have cut a TLS record
        if self._secure:
            sock.settimeout(timeout)
            return
        # Timeouts of the kernel rather than of the socket object, which polls before each call.
        sock.settimeout(None)
        self.limit(timeout)

    def limit(self, timeout: float | None) -> None:
        """Sets the seconds to wait for each reply; None is without end."""
        self.timeout = timeout
        if self._secure:
            self.sock.settimeout(timeout)
            return
        seconds = 0.0 if timeout is None else timeout
        if sys.platform == "win32":
            value = struct.pack("@L", int(seconds * 1e3))
        else:
            value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Sends a frame. If an exception of a signal handler cuts it, it is sent in full later or never."""

    @abstractmethod
    def recv(self) -> Buffer:
        """Returns the buffer of the next frame, which begins at START.

        After an exception of a signal handler the next call resumes with the same frame.
        """

    def ready(self, timeout: float) -> bool:
        """Reports whether `recv` finds at least a part of a frame within timeout seconds."""
        return (self._held is not None and any(self._held[2])) or self._input(timeout)

    @property
    def usable(self) -> bool:
        """Whether the transport can be used after an exception of a signal handler."""
        return not self._torn

    def share(self, size: int) -> None:  # noqa: B027  of those that share
        """Takes in the shared memory that the welcome offers."""

    def close(self) -> None:
        """Closes the socket. Further calls do nothing."""
        self.sock.close()

    def abandon(self) -> None:
        """Closes the socket without a word: another process uses it, or it is lost and the session is to be resumed."""
        self.sock.close()

    def __del__(self) -> None:
        """Closes a transport that nobody closed, so that the server does not wait for the client."""
        if getattr(self, "sock", None) is not None:
            with contextlib.suppress(Exception):  # at the end of the interpreter modules are gone
                self.close()

    def _write(self, data: bytes) -> None:
        """Sends data after the rest of what an interrupted call began to send."""
        if self._unsent is not None:
            if any(self._unsent[1]):
                self._flush()
            self._unsent = None
        sent: list[int] = []
        self._unsent = (data, sent)
        if self._secure:
            self._torn = True
        try:
            sent += map(self._send, (data,))
        except OSError as err:
            raise self._failure(err, "send to") from err
        if sent[0] < len(data):
            self._flush()
        self._unsent = None
        if self._secure:
            self._torn = False

    def _flush(self) -> None:
        assert self._unsent is not None
        data, sent = self._unsent
        while (done := sum(sent)) < len(data):
            try:
                sent += map(self._send, (memoryview(data)[done:],))
            except OSError as err:
                raise self._failure(err, "send to") from err

    def _receive(self, buf: bytearray, start: int, end: int, counts: list[int]) -> None:
        """Receives into part of buf, all of it if no signal and no timeout comes, and adds to counts."""
        if self._secure:
            self._wait_for_input()
        try:
            counts += map(self._recv_into, (memoryview(buf)[start:end],), (end - start,), (self._wait_all,))
        except OSError as err:
            raise self._failure(err, "receive from") from err
        self._torn = False
        if not counts[-1]:
            raise ConnectionLostError("the server closed the connection")

    def _wait_for_input(self) -> None:
        """Waits where an exception does no harm: reads of TLS take the time of a copy then."""
        if not self._input(self.timeout):
            raise self._late()
        self._torn = True

    def _input(self, timeout: float | None) -> bool:
        """Reports whether bytes can be received within timeout seconds."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return True
        return bool(select.select([self.sock], [], [], timeout)[0])

    def _failure(self, err: OSError, what: str) -> ConnectionLostError:
        """Returns what to raise for an error of a system call."""
        if err.errno is None and not self._secure:
            raise err  # of a signal handler, such as one that limits the time
        if isinstance(err, (BlockingIOError, TimeoutError)):
            return self._late()
        return ConnectionLostError(f"{what} the server: {err}")

    def _late(self) -> ReplyTimeoutError:
        return ReplyTimeoutError(f"no answer from the server within {self.timeout} s")

    def _need(self, size: int) -> tuple[bytearray, int]:
        """Returns the held input, which then has size bytes at least, and where it begins."""
        while True:
            if self._held is None:
                self._held = (bytearray(START + size), START - 4, [])
            buf, at, counts = self._held
            got = sum(counts)
            if got >= size:
                return buf, at
            if len(buf) < at + size and (at + got == len(buf) or len(buf) < at + _FIRST):
                longer = bytearray(min(at + size, max(at + _FIRST, 2 * len(buf))))
                longer[: at + got] = memoryview(buf)[: at + got]
                self._held = (longer, at, [got])
                continue
            self._receive(buf, at + got, min(at + size, len(buf)), counts)

    def _without(self, size: int) -> tuple[bytearray, int, list[int]] | None:
        """Returns what is held after the first size bytes of the held input."""
        assert self._held is not None
        buf, at, counts = self._held
        rest = sum(counts) - size
        if not rest:
            return None
        longer = bytearray(START + self._expect + SLACK + rest)
        longer[START - 4 : START - 4 + rest] = memoryview(buf)[at + size : at + size + rest]
        return longer, START - 4, [rest]


class StreamTransport(Transport):
    """Frames over a stream socket, each after its length as a 32-bit little-endian integer."""

    _LENGTH = struct.Struct("<I")

    def send(self, frame: bytes) -> None:
        """Sends a frame."""
        self._write(self._LENGTH.pack(len(frame)) + frame)

    def recv(self) -> bytearray:
        """Returns the buffer of the next frame, which begins at START."""
        if self._held is None:
            # The next frame is most often about as long as the last one: one call then reads it whole.
            buf = bytearray(START + self._expect + SLACK)
            counts: list[int] = []
            self._held = (buf, START - 4, counts)
            try:
                counts += map(self._recv_into, (memoryview(buf)[START - 4 :],))
            except OSError as err:
                raise self._failure(err, "receive from") from err
            size = self._LENGTH.unpack_from(buf, START - 4)[0]
            if counts[0] == size + 4:
                del buf[START + size :]
                self._expect = size
                self._held = None
                return buf
            if not counts[0]:
                raise ConnectionLostError("the server closed the connection")
        buf, at = self._need(4)
        size = self._LENGTH.unpack_from(buf, at)[0]
        if size > MAX_FRAME:
            raise ProtocolError(f"a frame of {size} bytes")
        buf, at = self._need(4 + size)  # at is START - 4 always
        self._held = self._without(4 + size)
        self._expect = size
        del buf[START + size :]
        return buf
