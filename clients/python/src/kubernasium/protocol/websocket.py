"""A minimal synchronous WebSocket client (RFC 6455) for binary messages."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import socket
import ssl
import struct
from urllib.parse import SplitResult, urlsplit

import numpy as np

from kubernasium.errors import ConnectionLostError, KubernasiumError, ProtocolError, UnauthenticatedError
from kubernasium.protocol.transport import MAX_FRAME, SLACK, START, Transport

SUBPROTOCOL = "kubernasium.v1"
URLS = "ws://host:port, wss://host:port, unix:/path or k8s+dns://name:port"  # the kinds of URLs, for errors
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MAX_RESPONSE = 64 << 10
_FIN, _MASKED = 0x80, 0x80
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_SMALL = 512  # bytes up to which an integer masks faster than an array


class WebSocketTransport(Transport):
    """Frames as binary WebSocket messages."""

    leased = True

    def __init__(self, sock: socket.socket, timeout: float | None) -> None:
        super().__init__(sock, timeout)
        self._keys = b""  # random bytes for masking keys, four for each frame
        self._parts: list[bytearray] = []  # of a message, each from START

    def send(self, frame: bytes) -> None:
        """Sends a frame as one binary message."""
        self._write(self._message(BINARY, frame))

    def recv(self) -> bytearray:
        """Returns the buffer of the next frame, which begins at START."""
        if self._held is not None:
            return self._recv_message()
        expect = self._expect
        head = 2 if expect < 126 else 4 if expect < 65536 else 10
        # The next message is most often about as long as the last one: one call then reads it whole.
        buf = bytearray(START + expect + SLACK)
        counts: list[int] = []
        self._held = (buf, START - head, counts)
        if self._secure:
            self._wait_for_input()
        try:
            counts += map(self._recv_into, (memoryview(buf)[START - head :],))
        except OSError as err:
            raise self._failure(err, "receive from") from err
        if self._secure:
            self._torn = False
        got = counts[0]
        if not got:
            raise ConnectionLostError("the server closed the connection")
        if buf[START - head] == _FIN | BINARY and not self._parts:
            size = self._sized(buf, head)
            if got == head + size:
                del buf[START + size :]
                self._expect = size
                self._held = None
                return buf
        return self._recv_message()

    def close(self) -> None:
        """Says goodbye, if that does not block, and closes the socket."""
        try:
            self.sock.settimeout(0)
            self.sock.send(self._message(CLOSE, struct.pack(">H", 1000)))
        except OSError:
            pass
        super().close()

    @staticmethod
    def _sized(buf: bytearray, head: int) -> int:
        """Returns the length in the header of head bytes before START, or -1 if it is of another kind."""
        code = buf[START - head + 1]
        if head == 2:
            return code if code < 126 else -1
        if head == 4:
            return struct.unpack_from(">H", buf, START - 2)[0] if code == 126 else -1
        return struct.unpack_from(">Q", buf, START - 8)[0] if code == 127 else -1

    def _recv_message(self) -> bytearray:
        """Reads one message of any number of fragments and answers control frames."""
        while True:
            first, head, size = self._header()
            buf, at = self._need(head + size)
            rest = self._without(head + size)
            if first == _FIN | BINARY and not self._parts and at + head == START:
                self._held = rest
                self._expect = size
                del buf[START + size :]
                return buf
            payload = bytearray(START) + memoryview(buf)[at + head : at + head + size]
            opcode = first & 0xF
            if opcode in (BINARY, CONTINUATION) and (opcode == CONTINUATION) == bool(self._parts):
                parts = [*self._parts, payload]
                if first & _FIN:
                    whole = parts[0] + b"".join(part[START:] for part in parts[1:])
                    self._held, self._parts = rest, []
                    self._expect = len(whole) - START
                    return whole
                self._held, self._parts = rest, parts
                continue
            self._held = rest
            self._control(opcode, payload)

    def _control(self, opcode: int, payload: bytearray) -> None:
        """Answers a control frame, whose payload begins at START."""
        if opcode == PING:
            self._write(self._message(PONG, bytes(payload[START:])))
        elif opcode == CLOSE:
            code = struct.unpack_from(">H", payload, START)[0] if len(payload) >= START + 2 else 1005
            reason = payload[START + 2 :].decode("utf-8", "replace")
            raise ConnectionLostError(f"the server closed the connection: {code} {reason}".rstrip())
        elif opcode != PONG:
            raise ProtocolError(f"WebSocket frame with opcode {opcode}")

    def _header(self) -> tuple[int, int, int]:
        """Returns the first byte of the next WebSocket frame, the length of its header, and its size."""
        buf, at = self._need(2)
        first, size = buf[at], buf[at + 1]
        if size & _MASKED or first & 0x70:
            raise ProtocolError("a WebSocket frame that is masked or uses an extension")
        head = 2
        if size >= 126:
            head = 4 if size == 126 else 10
            buf, at = self._need(head)
            size = int.from_bytes(buf[at + 2 : at + head], "big")
        if size > MAX_FRAME:
            raise ProtocolError(f"a frame of {size} bytes")
        return first, head, size

    def _message(self, opcode: int, payload: bytes) -> bytes:
        """Returns a masked WebSocket frame."""
        if len(self._keys) < 4:
            self._keys = os.urandom(4096)
        key, self._keys = self._keys[:4], self._keys[4:]
        return masked(opcode, payload, key)


def masked(opcode: int, payload: bytes, key: bytes | None = None) -> bytes:
    """Returns a WebSocket frame of a client, by default with a random masking key of 4 bytes."""
    size, key = len(payload), os.urandom(4) if key is None else key
    if size < 126:
        head = bytes([_FIN | opcode, _MASKED | size]) + key
    elif size < 65536:
        head = struct.pack(">BBH", _FIN | opcode, _MASKED | 126, size) + key
    else:
        head = struct.pack(">BBQ", _FIN | opcode, _MASKED | 127, size) + key
    return head + mask(payload, key)


def mask(payload: bytes, key: bytes) -> bytes:
    """Returns payload with byte i combined with byte i modulo 4 of key by exclusive or."""
    size = len(payload)
    if size <= _SMALL:
        keys = (key * (size // 4 + 1))[:size]
        return (int.from_bytes(payload, "little") ^ int.from_bytes(keys, "little")).to_bytes(size, "little")
    whole = size - size % 4
    words = np.frombuffer(payload, np.uint32, whole // 4) ^ np.frombuffer(key, np.uint32)[0]
    return words.tobytes() + bytes(a ^ b for a, b in zip(payload[whole:], key, strict=False))


def connect_websocket(url: str, token: str | None, timeout: float | None) -> WebSocketTransport:
    """Connects to the server at url.

    Args:
        url: `ws://host:port` or `wss://host:port`, with or without the path `/v1/ws`.
        token: bearer token, or None.
        timeout: seconds to wait for the connection and, later, for each reply.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise ValueError(f"URL {url!r}, want {URLS}")
    upgrade = Upgrade(parts, token)
    secure = parts.scheme == "wss"
    port = parts.port or (443 if secure else 80)
    try:
        sock = socket.create_connection((parts.hostname, port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if secure:
            sock = tls_context().wrap_socket(sock, server_hostname=parts.hostname)
    except OSError as err:
        raise ConnectionLostError(f"connect to {parts.hostname}:{port}: {err}") from err
    try:
        sock.sendall(upgrade.request)
        upgrade.check(_response(sock))
        return WebSocketTransport(sock, timeout)
    except BaseException as err:
        sock.close()
        if isinstance(err, OSError) and not isinstance(err, KubernasiumError):
            raise ConnectionLostError(f"WebSocket handshake with {upgrade.host}: {err}") from err
        raise


def tls_context() -> ssl.SSLContext:
    """Returns the settings of `wss`.

    OpenSSL's variable SSL_CERT_FILE names other authorities than the system's. A server that asks for a certificate of
    the client is shown the one in the file KUBERNASIUM_TLS_CERT, with its key in KUBERNASIUM_TLS_KEY or in the same
    file.

    Raises:
        OSError: a file cannot be read, or key and certificate do not belong together.
    """
    context = ssl.create_default_context()
    certificate = os.environ.get("KUBERNASIUM_TLS_CERT")
    if certificate:
        context.load_cert_chain(certificate, os.environ.get("KUBERNASIUM_TLS_KEY") or None)
    return context


def _response(sock: socket.socket) -> bytes:
    """Receives the response to an upgrade request."""
    # Byte by byte near the end would be needed to not read beyond the response; but the server
    # speaks only when spoken to, so nothing follows it.
    response = b""
    while b"\r\n\r\n" not in response:
        chunk = sock.recv(4096)
        if not chunk or len(response) > _MAX_RESPONSE:
            raise ProtocolError("no HTTP response to the WebSocket handshake")
        response += chunk
    return response


class Upgrade:
    """The request that makes an HTTP connection a WebSocket, and the check of its response.

    Attributes:
        host: host and port of the server.
        request: the bytes to send.
    """

    def __init__(self, url: SplitResult, token: str | None) -> None:
        """Writes the request.

        Args:
            url: of the server.
            token: bearer token, or None.
        """
        path = url.path if url.path not in ("", "/") else "/v1/ws"
        self.host = url.netloc.rpartition("@")[2]
        self._key, self._token = base64.b64encode(secrets.token_bytes(16)), token
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {self.host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {self._key.decode()}",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
        ]
        if token:
            if not token.isprintable():
                raise ValueError("the token has characters that a header cannot hold")
            lines.append(f"Authorization: Bearer {token}")
        self.request = ("\r\n".join(lines) + "\r\n\r\n").encode()

    def check(self, response: bytes) -> None:
        """Raises an error unless response, up to the empty line at least, accepts the upgrade."""
        head, _, body = response.partition(b"\r\n\r\n")
        status, *header_lines = head.decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in header_lines)}
        code = status.split(" ")[1] if " " in status else ""
        if code == "401" and "www-authenticate" not in headers:
            raise UnauthenticatedError(
                f"the server wants a certificate of the client ({status}): set the environment variables "
                "KUBERNASIUM_TLS_CERT and KUBERNASIUM_TLS_KEY to files of one that its authority has signed"
            )
        if code == "401":
            what = "refuses the token" if self._token else "wants a bearer token"
            raise UnauthenticatedError(
                f"the server {what} ({status}): set the environment variable KUBERNASIUM_TOKEN to the one that it "
                "was started with"
            )
        if code == "403":
            raise UnauthenticatedError(f"the server refuses the connection: {status}")
        if code != "101":
            raise ConnectionLostError(f"WebSocket handshake: {status}: {body[:200].decode('utf-8', 'replace').strip()}")
        accept = base64.b64encode(hashlib.sha1(self._key + _GUID).digest()).decode()
        if headers.get("sec-websocket-accept") != accept:
            raise ProtocolError("WebSocket handshake: a wrong Sec-WebSocket-Accept")
        if headers.get("sec-websocket-protocol") != SUBPROTOCOL:
            raise ProtocolError(f"the server does not speak {SUBPROTOCOL}")
