"""Reconnects: a session is resumed at its server, or rebuilt at a restarted one.

The server executes no request twice (section 6.16 of the protocol). A session over WebSocket outlives its
connection for a lease. One over a unix socket ends with its connection, because only the end of the server cuts such a
socket; it is always rebuilt.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kubernasium.errors import (
    BusyError,
    ConnectionLostError,
    KubernasiumError,
    ProtocolError,
    ReplyTimeoutError,
    UnavailableError,
    from_reply,
)
from kubernasium.protocol.codec import decode, encode
from kubernasium.protocol.journal import CannotRebuildError, Entry
from kubernasium.protocol.transport import START, Transport

if TYPE_CHECKING:
    from kubernasium.protocol.connection import Connection

DEFAULT_RECONNECT = 60.0
RESUME = "resume"  # the part of the protocol
FIRST_DELAY = 0.01  # seconds; doubles with each attempt
LONGEST_DELAY = 1.0

# Ids of the hellos of a connection that resumes, below all others: the journal is repeated with the ids that it had.
_RESUME_ID, _ANEW_ID = 1, 2
_ID = struct.Struct(">Q")

_log = logging.getLogger("kubernasium")

# Connects within the given seconds, which are also the time limit of each reply; None is none.
Dial = Callable[[float | None], Transport]


def ends(error: KubernasiumError) -> bool:
    """Reports whether error says that the server stops, and has not carried out the request or not wholly.

    The error of a request that the client has cancelled may say the same; `Connection` knows those.
    """
    return error.reason in ("DRAINING", "CANCELLED")


class Resumption:
    """Reconnects a session."""

    def __init__(self, connection: Connection, dial: Dial, reconnect: float) -> None:
        """Prepares for losses.

        Args:
            connection: the session.
            dial: connects anew.
            reconnect: seconds for which to try.
        """
        self._connection, self._dial, self._reconnect = connection, dial, reconnect
        self._rebuilding = False  # the session is new, and lacks a part of the journal
        self._repeated = 0  # greatest id of the journal that was repeated after this loss

    def helps(self, err: KubernasiumError) -> bool:
        """Reports whether another connection may help after err."""
        greeted = bool(self._connection.sid)
        return greeted and isinstance(err, ConnectionLostError) and not isinstance(err, ReplyTimeoutError)

    def recover(self, cause: KubernasiumError, awaited: set[int]) -> None:
        """Connects, and sends what has not arrived, until that succeeds or the time is over.

        An exception of a signal handler leaves the connection such that the next call begins again.

        Args:
            cause: why the last connection is of no use.
            awaited: ids of the requests whose replies the caller needs.

        Raises:
            ConnectionLostError: it did not succeed.
        """
        end, delay, self._repeated = time.monotonic() + self._reconnect, FIRST_DELAY, 0
        while True:
            before = self._repeated
            try:
                self._again(awaited, max(1.0, end - time.monotonic()))
            except KubernasiumError as err:
                if self._repeated > before:  # a long journal over a bad wire takes many connections
                    delay, end = FIRST_DELAY, time.monotonic() + self._reconnect
                pause = max(delay, err.retry_after or 0.0)
                if not _temporary(err) or time.monotonic() + pause > end:
                    raise self._lost(cause, err) from err
                time.sleep(pause)
                delay = min(2 * delay, LONGEST_DELAY)
            else:
                _log.info("connected again after: %s", cause)
                self._connection.cut = None
                return

    @staticmethod
    def _lost(cause: KubernasiumError, err: KubernasiumError) -> ConnectionLostError:
        kind = type(err) if isinstance(err, CannotRebuildError) else ConnectionLostError
        return kind(f"the connection was lost ({cause}); connecting again: {err}")

    def _again(self, awaited: set[int], seconds: float) -> None:
        """Connects once, such that the replies to the awaited requests arrive."""
        connection = self._connection
        connection.transport.abandon()
        limit = seconds if connection.timeout is None else min(seconds, connection.timeout)
        connection.transport = self._dial(limit)
        done = self._hello()
        connection.transport.limit(connection.timeout)
        if not self._rebuilding and any(rid < done for rid in awaited if rid in connection.outstanding):
            # The session keeps its last reply only, and the caller needs earlier ones.
            connection.transport.close()
            connection.token, self._rebuilding = "", True
            done = self._anew()
        if self._rebuilding:
            self._rebuild(done)
        for rid, (frame, sink) in sorted(connection.outstanding.items()):
            if rid in awaited:
                if rid > done:
                    connection.transport.send(frame)
                continue
            del connection.outstanding[rid]  # nobody waits for it any more
            cancelled = rid in connection.cancelled
            connection.cancelled.discard(rid)
            if rid <= done and sink is not None:
                if cancelled:
                    sink.refused("CANCELLED")  # or it was complete before
                else:
                    sink.uncertain(rid, frame)

    def _anew(self) -> int:
        """Opens a connection for a new session."""
        self._connection.transport = self._dial(self._connection.timeout)
        return self._hello()

    def _hello(self) -> int:
        """Sends hello, and returns the id of the last request that the session has executed."""
        connection = self._connection
        fields = connection.hello()
        if connection.token:
            resume = {"sid": connection.sid, "token": connection.token, "last": connection.got}
            reply = self._ask(_RESUME_ID, encode({"t": "hello", "id": _RESUME_ID, **fields, "resume": resume}))
            if reply.get("t") != "err":
                connection.welcomed(reply)
                return int(reply.get("last", 0))
            error = from_reply(reply)
            if error.reason != "UNKNOWN_SESSION":
                raise error
        self._rebuilding = True
        connection.token = ""
        reply = self._ask(_ANEW_ID, encode({"t": "hello", "id": _ANEW_ID, **fields}))
        if reply.get("t") == "err":
            raise from_reply(reply)
        connection.welcomed(reply)
        return 0

    def _ask(self, rid: int, frame: bytes) -> dict[str, Any]:
        """Sends a request and returns its reply, a refusal included."""
        self._connection.transport.send(frame)
        return decode(memoryview(self._reply(rid))[START:])

    def _reply(self, rid: int) -> bytearray:
        """Returns the buffer of the reply to request rid."""
        wide = b"\xa2id\xcf" + _ID.pack(rid)
        while True:
            buf = self._connection.transport.recv()
            if wide in buf[START : START + 40]:  # the server writes kind and id first
                return buf
            frame = decode(memoryview(buf)[START:])
            if frame.get("id") == rid:
                return buf
            if frame.get("id") == 0 and frame.get("t") == "err":
                raise from_reply(frame)
            if frame.get("id"):
                raise ProtocolError(f"a reply with id {frame['id']!r}, want {rid}")

    def _rebuild(self, done: int) -> None:
        """Replays the requests of the journal after id done, which restores the environments."""
        connection = self._connection
        assert connection.journal is not None
        for entry in connection.journal.entries():
            if entry.rid > done:
                self._repeat(entry)
                self._repeated = max(self._repeated, entry.rid)
        self._rebuilding = False

    def _repeat(self, entry: Entry) -> None:
        self._connection.transport.send(entry.frame)
        buf = self._reply(entry.rid)
        if entry.agrees(buf):
            return
        message = decode(memoryview(buf)[START:])
        if message.get("t") == "err":
            error = from_reply(message)
            if _temporary(error):
                raise error
            raise CannotRebuildError(f"the server was started anew and refuses what led to this state: {error}")
        raise CannotRebuildError(
            "the server was started anew and replies otherwise than before: it has another version, or the "
            "environments are not deterministic"
        )


def _temporary(err: KubernasiumError) -> bool:
    """Reports whether a later attempt may succeed."""
    if isinstance(err, ConnectionLostError):
        return not isinstance(err, CannotRebuildError)
    return isinstance(err, (UnavailableError, BusyError)) and err.reason != "BACKEND"
