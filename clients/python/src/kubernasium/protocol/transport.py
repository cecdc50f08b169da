"""Ways to carry frames: a stream socket with length prefixes, and what WebSocket shares.

A received frame lies in a `bytearray` of its own from offset `START` to its end, so that its
arrays are writable, aligned, and valid for as long as they are used.
"""

from __future__ import annotations

import socket
import ssl
import struct
from abc import ABC, abstractmethod

from kubernasium.errors import ConnectionLostError, ProtocolError, ReplyTimeoutError

START = 16  # of the payload in a received buffer: a multiple of 8 that any header fits before
MAX_FRAME = 1 << 30
SLACK = 128  # bytes by which a frame is often longer than the last one: that an episode ended


class Transport(ABC):
    """A connected socket that carries frames. It is not safe for concurrent use."""

    def __init__(self, sock: socket.socket, timeout: float | None) -> None:
        self.sock = sock
        self.timeout = timeout
        self._wait_all = 0 if isinstance(sock, ssl.SSLSocket) else socket.MSG_WAITALL
        self._recv_into = sock.recv_into
        self._sendall = sock.sendall
        self._expect = SLACK  # length of the last frame
        self._spill = b""  # bytes received after the end of the last frame
        if isinstance(sock, ssl.SSLSocket):
            sock.settimeout(timeout)
            return
        # Timeouts of the kernel rather than of the socket object, which polls before each call.
        sock.settimeout(None)
        seconds = 0.0 if timeout is None else timeout
        value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Sends a frame."""

    @abstractmethod
    def recv(self) -> bytearray:
        """Returns the buffer of the next frame, which begins at START."""

    def close(self) -> None:
        """Closes the socket. Further calls do nothing."""
        self.sock.close()

    def __del__(self) -> None:
        """Closes the socket of a transport that nobody closed."""
        sock = getattr(self, "sock", None)
        if sock is not None:
            sock.close()

    def fileno(self) -> int:
        """Returns the socket's descriptor, for `select`."""
        return self.sock.fileno()

    def _write(self, data: bytes) -> None:
        try:
            self._sendall(data)
        except (BlockingIOError, TimeoutError) as err:
            raise self._late() from err
        except OSError as err:
            raise ConnectionLostError(f"send to the server: {err}") from err

    def _read(self, view: memoryview, flags: int = 0) -> int:
        """Receives up to the length of view and returns how many bytes."""
        try:
            n = self._recv_into(view, 0, flags)
        except (BlockingIOError, TimeoutError) as err:
            raise self._late() from err
        except OSError as err:
            raise ConnectionLostError(f"receive from the server: {err}") from err
        if n == 0:
            raise ConnectionLostError("the server closed the connection")
        return n

    def _late(self) -> ReplyTimeoutError:
        return ReplyTimeoutError(f"no answer from the server within {self.timeout} s")

    def _fill(self, view: memoryview) -> None:
        """Receives exactly the length of view."""
        done = 0
        if self._spill:
            done = min(len(self._spill), len(view))
            view[:done] = self._spill[:done]
            self._spill = self._spill[done:]
        while done < len(view):
            done += self._read(view[done:], self._wait_all)


class StreamTransport(Transport):
    """Frames over a stream socket, each after its length as a 32-bit little-endian integer."""

    _LENGTH = struct.Struct("<I")

    def send(self, frame: bytes) -> None:
        """Sends a frame."""
        self._write(self._LENGTH.pack(len(frame)) + frame)

    def recv(self) -> bytearray:
        """Returns the buffer of the next frame, which begins at START."""
        if self._spill:
            return self._recv_known()
        # The next frame is most often about as long as the last one: one call then reads it whole.
        buf = bytearray(START + self._expect + SLACK)
        got = self._read(memoryview(buf)[START - 4 :])
        size = self._LENGTH.unpack_from(buf, START - 4)[0]
        if got == size + 4:
            del buf[START + size :]
            self._expect = size
            return buf
        self._spill = bytes(memoryview(buf)[START - 4 : START - 4 + got])
        return self._recv_known()

    def _recv_known(self) -> bytearray:
        head = bytearray(4)
        self._fill(memoryview(head))
        size = self._LENGTH.unpack(head)[0]
        if size > MAX_FRAME:
            raise ProtocolError(f"a frame of {size} bytes")
        buf = bytearray(START + size)
        self._fill(memoryview(buf)[START:])
        self._expect = size
        return buf


def connect_unix(path: str, timeout: float | None) -> StreamTransport:
    """Connects to the unix socket at path."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
    except OSError as err:
        sock.close()
        raise ConnectionLostError(f"connect to {path}: {err}") from err
    return StreamTransport(sock, timeout)
