"""Compressed frames, for slow links: the optional part `zstd` of the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from kubernasium.errors import ProtocolError
from kubernasium.protocol.transport import MAX_FRAME, START, Transport

if TYPE_CHECKING:
    import zstandard

ZSTD = "zstd"
_MAGIC = b"\x28\xb5\x2f\xfd"
_SMALLEST = 512  # bytes from which a frame is worth compressing


class Packer:
    """Compresses and decompresses frames."""

    def __init__(self) -> None:
        """Loads the library.

        Raises:
            ImportError: it is not installed.
        """
        try:
            import zstandard
        except ImportError as err:
            raise ImportError("compress=zstd needs a library: pip install 'kubernasium[zstd]'") from err
        self._library = zstandard
        self._compressor: zstandard.ZstdCompressor = zstandard.ZstdCompressor(level=1)
        self._decompressor: zstandard.ZstdDecompressor = zstandard.ZstdDecompressor()

    def pack(self, frame: bytes) -> bytes:
        """Returns frame compressed, or as it is if that is shorter."""
        if len(frame) < _SMALLEST:
            return frame
        packed = self._compressor.compress(frame)
        return packed if len(packed) < len(frame) else frame

    def unpack(self, frame: bytes | bytearray | memoryview) -> bytes | None:
        """Decompresses a frame; None if it is not compressed.

        Raises:
            ProtocolError: it cannot be read, or is too large.
        """
        if frame[:4] != _MAGIC:
            return None
        try:
            size = self._library.get_frame_parameters(frame).content_size
            if size > MAX_FRAME:
                raise ProtocolError(f"a compressed frame of {size} bytes, or of a size that its header does not tell")
            return self._decompressor.decompress(frame, allow_extra_data=False)
        except self._library.ZstdError as err:
            raise ProtocolError(f"a compressed frame that cannot be read: {err}") from err


class PackedTransport(Transport):
    """A transport whose frames may be compressed."""

    def __init__(self, inner: Transport) -> None:
        """Wraps a connected transport.

        Raises:
            ImportError: the library is not installed.
        """
        self._packer = Packer()
        self._inner = inner
        self._came: bytearray | None = None  # a frame that no caller has got yet
        self.sock, self.timeout, self.leased = inner.sock, inner.timeout, inner.leased
        self.agreed = False  # the server reads compressed frames

    def limit(self, timeout: float | None) -> None:
        """Sets the seconds to wait for each reply; None is without end."""
        self.timeout = timeout
        self._inner.limit(timeout)

    def send(self, frame: bytes) -> None:
        """Sends a frame."""
        self._inner.send(self._packer.pack(frame) if self.agreed else frame)

    def recv(self) -> bytearray:
        """Returns the buffer of the next frame, which begins at START."""
        if self._came is None:
            self._came = self._inner.recv()
        frame = self._packer.unpack(memoryview(self._came)[START:])
        buf = self._came if frame is None else bytearray(START) + frame
        self._came = None
        return buf

    def ready(self, timeout: float) -> bool:
        """Reports whether `recv` finds at least a part of a frame within timeout seconds."""
        return self._came is not None or self._inner.ready(timeout)

    @property
    def usable(self) -> bool:
        """Whether the transport can be used after an exception of a signal handler."""
        return self._inner.usable

    def close(self) -> None:
        """Closes the socket. Further calls do nothing."""
        self._inner.close()

    def abandon(self) -> None:
        """Closes the socket without a word."""
        self._inner.abandon()


def compresses(url: str) -> bool:
    """Reports whether a URL asks for compressed frames.

    Args:
        url: of a server; `?compress=zstd` at its end asks.

    Raises:
        ValueError: it asks for another compression.
    """
    asked = parse_qs(urlsplit(url).query).get("compress")
    if asked not in (None, [ZSTD]):
        raise ValueError(f"compress={','.join(asked)} in {url!r}, want {ZSTD}")
    return asked is not None
