"""A session with a server: the handshake, requests and their replies."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from kubernasium.errors import (
    BusyError,
    ClosedError,
    ConnectionLostError,
    ForkedError,
    KubernasiumError,
    ProtocolError,
    ReplyTimeoutError,
    UnimplementedError,
    from_reply,
)
from kubernasium.protocol import checks
from kubernasium.protocol.codec import decode, encode
from kubernasium.protocol.journal import Journal, Log, Sink
from kubernasium.protocol.keep_alive import keep_alive
from kubernasium.protocol.packing import ZSTD, PackedTransport
from kubernasium.protocol.resume import RESUME, Dial, Resumption, ends
from kubernasium.protocol.shared import SHM
from kubernasium.protocol.transport import START, Buffer, Transport

VERSION = (1, 8)
CLIENT = "kubernasium-python/0.1.0"
DEFAULT_TIMEOUT = 120.0

# Optional parts of the protocol, and the versions since which they are in it.
SINCE = {
    "rollout": (1, 1),
    "snapshot": (1, 1),
    "baseline": (1, 2),
    "resume": (1, 3),
    "cancel": (1, 4),
    "async": (1, 5),
    "env_error": (1, 5),
    "obs_keys": (1, 5),
    "zstd": (1, 6),
    "state": (1, 7),
    "shm": (1, 8),
}

# Seconds that an interrupted request has to end by itself before it is cancelled. Most steps take less, and count.
GRACE = 0.1

# Ids start where MessagePack writes every one with the same number of bytes, so that equal
# requests get replies of equal layout.
_FIRST_ID = 1 << 32


class Connection:
    """A session. Its environments live as long as it does.

    Only one thread at a time may use a connection; it is a context manager. If it can dial again, it survives lost
    connections, and rebuilds deterministic environments at a restarted server (`resume.py`).

    Attributes:
        server: name and version of the server.
        sid: id of the session in the server's log.
        version: version of the protocol in this session, (major, minor).
        caps: optional parts of the protocol that the server has.
        limits: the server's limits, by the names of the protocol.
        draining: whether the server has said that it stops.
        local: whether the server is on this machine, so that both see the same files.
        remedy: what to do when the connection is lost, for messages.
        post_mortem: returns why the server no longer answers, for messages; "" if it is running.
    """

    def __init__(
        self, transport: Transport, *, local: bool = False, dial: Dial | None = None, reconnect: float = 0.0
    ) -> None:
        """Sends hello over a connected transport, which the connection closes when it ends.

        Args:
            transport: the connected transport.
            local: see above.
            dial: connects anew, with a limit of seconds for each reply.
            reconnect: seconds for which to try that after a loss; 0 or less is never.
        """
        self.transport = transport
        self.timeout = transport.timeout
        self.journal = Journal() if dial is not None and reconnect > 0 else None
        self._resumption = None if dial is None or self.journal is None else Resumption(self, dial, reconnect)
        self.local = local
        self.remedy = "make the environment again"
        self.post_mortem: Callable[[], str] = str
        self.lock = threading.Lock()
        self._pid = os.getpid()
        _all.add(self)
        self.sid = ""
        self._id = _FIRST_ID
        self._expected: set[int] = set()  # ids of requests whose replies are received later
        self._arrived: dict[int, Buffer] = {}  # those replies, if they came while another was awaited
        # Requests without a reply: their frames, and what learns how they end. Empty without a journal.
        self.outstanding: dict[int, tuple[bytes, Sink | None]] = {}
        self.cancelled: set[int] = set()  # ids of requests that were cancelled, and whose replies did not come yet
        self.got = 0  # id of the last reply
        self.cut: KubernasiumError | None = None  # why the transport is of no use; the next request connects again
        self._end: BaseException | None = None
        try:
            self.welcomed(self.request("hello", **self.hello()))
        except BaseException:
            transport.close()
            raise

    def hello(self) -> dict[str, Any]:
        """Returns the fields of a hello."""
        caps = [RESUME] if self._resumption is not None and self.transport.leased else []
        if isinstance(self.transport, PackedTransport):
            caps.append(ZSTD)
        if self.transport.shares:
            caps.append(SHM)
        return {"ver": list(VERSION), "client": CLIENT, "caps": caps or None}

    def welcomed(self, welcome: dict[str, Any]) -> None:
        """Processes the reply to a hello."""
        checks.welcomed(welcome)
        self.server = str(welcome.get("server", ""))
        self.sid = str(welcome.get("sid", ""))
        self.version: tuple[int, ...] = tuple(welcome.get("ver", VERSION))
        self.caps: frozenset[str] = frozenset(welcome.get("caps", ()))
        self.limits: dict[str, int] = welcome.get("limits", {})
        self.token = str(welcome.get("resume_token") or "")
        self.draining = False
        if isinstance(self.transport, PackedTransport):
            self.transport.agreed = ZSTD in self.caps
        self.transport.share(int(welcome.get("shm", 0)) if SHM in self.caps else 0)
        keep_alive(self)  # each server has limits of its own

    def request(self, kind: str, /, **fields: Any) -> dict[str, Any]:
        """Sends a request and returns its reply.

        Args:
            kind: `t` of the request.
            **fields: its other fields; None means absent.

        Raises:
            KubernasiumError: the server rejected it, or the connection is lost.
        """
        with self.lock:
            rid = self.next_id()
            message = {key: value for key, value in fields.items() if value is not None}
            self.send(encode({"t": kind, "id": rid, **message}), rid, self.sink(kind, message))
            return self._await(rid, lambda reply: self._replied(reply, kind, message))

    @staticmethod
    def _replied(reply: dict[str, Any], kind: str, request: dict[str, Any]) -> None:
        """Checks the reply to a request."""
        checks.replied(reply, kind)
        if kind == "make":
            checks.made(reply, request["n"], request["autoreset"])
        elif kind == "state":
            checks.need(isinstance(reply.get("state"), bytes), "state.ok has no bytes")

    def need(self, part: str) -> None:
        """Raises UnimplementedError if the server lacks an optional part of the protocol."""
        if part not in self.caps:
            raise missing(part, self.server, self.version)

    def next_id(self) -> int:
        """Returns the id of the next request. The caller holds the lock."""
        self._id += 1
        return self._id

    def log(self, eid: int) -> Log | None:
        """Returns the journal of a vector, or None without one."""
        return None if self.journal is None else self.journal.logs[eid]

    def sink(self, kind: str, fields: dict[str, Any]) -> Sink | None:
        """Returns what learns how a request ends, or None without a journal; see `Journal.sink`."""
        return None if self.journal is None else self.journal.sink(kind, fields)

    def send(self, frame: bytes, rid: int, sink: Sink | None = None, *, lend: bool = False) -> None:
        """Sends a request, over another connection if the last one was lost. The caller holds the lock.

        Args:
            frame: the request.
            rid: its id.
            sink: what learns how it ends, of the journal.
            lend: whether the reply may be a view of shared memory, which holds until the second such request from now.
        """
        if self._end is not None:
            raise self.ended()
        if self._resumption is not None:
            self.outstanding[rid] = (frame, sink)
        try:
            if self.cut is None:
                self.transport.lend = lend
                self.transport.send(frame)
            else:
                self._again(rid)
        except BaseException as err:
            self._failed(err)
            self._again(rid)

    def _again(self, rid: int) -> None:
        """Connects again, so that a reply to request rid arrives, or whatever is expected if it is 0."""
        assert self._resumption is not None
        assert self.cut is not None
        try:
            self._resumption.recover(self.cut, {rid, *self._expected})
        except KubernasiumError as err:
            self.fail(err)
            raise

    def expect(self, rid: int) -> None:
        """Keeps the reply to request rid for a later `recv` or `poll`. The caller holds the lock."""
        self._expected.add(rid)

    def poll(self, rid: int, timeout: float) -> bool:
        """Receives frames until the reply to rid, which is expected, has come.

        Args:
            rid: id of the request.
            timeout: seconds after which to give up.

        Returns:
            Whether it has come. After an exception the reply is dropped when it comes.
        """
        deadline = time.monotonic() + timeout
        try:
            while rid not in self._arrived:
                if self._end is not None:
                    raise self.ended()
                if self.cut is None and not self.transport.ready(max(0.0, deadline - time.monotonic())):
                    return False
                with self.lock:
                    buf = self.recv()
                    self._sort(decode(memoryview(buf)[START:]), buf)
        except BaseException as err:
            self._expected.discard(rid)
            if not isinstance(err, KubernasiumError):
                with self.lock:
                    self._abandon(rid)
            raise
        return True

    def drop(self, rid: int) -> None:
        """Takes back `expect`."""
        self._expected.discard(rid)
        self.cancelled.discard(rid)
        self._arrived.pop(rid, None)

    def recv(self, rid: int = 0, *, keep: bool = False) -> Buffer:
        """Returns the buffer of the reply to rid if it has come, or else of the next frame.

        The frame begins at `START`. The caller holds the lock. An exception of a signal
        handler, such as Ctrl-C's, leaves the connection usable: the request is cancelled unless it ends at once, and
        its reply is received here or by the next call, which drops it by its id, or keeps it as `expect` does.
        """
        self._expected.discard(rid)
        if rid in self._arrived:
            return self._arrived.pop(rid)
        while True:
            if self._end is not None:
                raise self.ended()
            if self.cut is not None:
                self._again(rid)
            try:
                return self.transport.recv()
            except BaseException as err:
                if not isinstance(err, KubernasiumError):
                    if keep:
                        self._expected.add(rid)
                    self._abandon(rid)
                self._failed(err)

    def _abandon(self, rid: int) -> None:
        """Cancels a request whose reply nobody awaits after an interrupt, unless it ends within `GRACE`."""
        if not rid or "cancel" not in self.caps or not self.transport.usable:
            return
        try:
            if not self._ends(rid, time.monotonic() + GRACE):
                self.cancelled.add(rid)
                self.transport.send(encode({"t": "cancel", "id": self.next_id(), "of": rid}))
        except KubernasiumError as err:
            self._lose(err, err)  # and the next request connects again, or fails alike

    def _ends(self, rid: int, deadline: float) -> bool:
        """Receives frames until the reply to rid, and reports whether it has come before the deadline."""
        while self.cut is None and self._end is None:
            if not self.transport.ready(max(0.0, deadline - time.monotonic())):
                return False
            buf = self.transport.recv()
            frame = decode(memoryview(buf)[START:])
            self._sort(frame, buf)
            if frame.get("id") == rid:
                return True
        return True

    def _failed(self, err: BaseException) -> None:
        """Raises err and ends the connection, if nothing helps; otherwise it notes that the transport is of no use."""
        if not isinstance(err, KubernasiumError):
            if not self.transport.usable:
                self._lose(err, ConnectionLostError(f"an interrupt within a TLS record: {err!r}"))
            raise err
        self._lose(err, err)
        if self._end is None:
            return
        if (
            isinstance(err, ConnectionLostError)
            and not isinstance(err, ReplyTimeoutError)
            and (why := self.post_mortem())
        ):
            err.args = (f"{err}; {why}",)
        raise err

    def _lose(self, cause: BaseException, err: KubernasiumError) -> None:
        """Ends the connection because of cause, unless err is one after which another may help."""
        if self._end is None and self._resumption is not None and self._resumption.helps(err):
            self.cut = err
        else:
            self.fail(cause)

    def answers(self, frame: dict[str, Any], rid: int, buf: Buffer, check: Callable[[dict[str, Any]], None]) -> bool:
        """Reports whether frame, which lies in buf, is the reply to the request with id rid.

        Args:
            frame: the message.
            rid: the id.
            buf: its bytes.
            check: raises an error if frame is no right reply to that request, which ends the connection.

        Raises:
            KubernasiumError: it is, and is a refusal; or the server ends the session.
        """
        if frame.get("id") != rid or type(frame["id"]) is not int:
            self._sort(frame, buf)
            return False
        if frame.get("t") != "err":
            self.checked(check, frame)
            self.settle(rid, buf)
            return True
        error = from_reply(frame)
        if self._stops(rid, error):
            return False
        self._refused(rid, error)
        self.cancelled.discard(rid)
        raise error

    def checked(self, check: Callable[[Any], None], reply: Any) -> None:
        """Ends the connection and raises the error of a check if that finds a reply wrong."""
        try:
            check(reply)
        except ProtocolError as err:
            self.fail(err)
            raise

    def settle(self, rid: int, buf: Buffer) -> None:
        """Notes the reply to a request, which lies in buf."""
        self.transport.settled = rid == self._id
        self.cancelled.discard(rid)
        entry = self.outstanding.pop(rid, None)
        if entry is not None:
            self.got = rid
            if (sink := entry[1]) is not None:
                self.checked(lambda buf: sink.accepted(rid, entry[0], buf), buf)

    def _refused(self, rid: int, error: KubernasiumError) -> None:
        """Notes that a request was refused."""
        entry = self.outstanding.pop(rid, None)
        if entry is not None:
            self.got = rid
            if entry[1] is not None:
                entry[1].refused(error.code)

    def _stops(self, rid: int, error: KubernasiumError) -> bool:
        """Reports whether error says that the server stops, so that its successor is to carry out request rid."""
        if self._resumption is None or self._end is not None or not ends(error):
            return False
        if rid in self.cancelled:  # that is why
            return False
        self.cut, self.token = error, ""  # a server that stops keeps no session
        return True

    def _sort(self, frame: dict[str, Any], buf: Buffer) -> None:
        """Takes in a frame that nobody waits for now: another reply, or an event."""
        kind, got = frame.get("t"), frame.get("id")
        if got == 0 and kind == "err":
            error = from_reply(frame)
            if isinstance(error, BusyError):  # the server closes the connection next
                self.fail(error)
            raise error
        if got == 0 and kind == "drain":
            self.draining = True
        elif type(got) is not int or got > self._id:
            error = ProtocolError(f"a reply with id {got!r}, where {self._id} is the last request's")
            self.fail(error)
            raise error
        elif got in self._expected or got in self.outstanding or got in self.cancelled:
            error = from_reply(frame) if kind == "err" else None
            if error is not None and self._stops(got, error):
                return
            if error is None:
                self.settle(got, buf)
            else:
                self._refused(got, error)
            if got in self._expected:
                self._arrived[got] = buf
            else:
                self.cancelled.discard(got)
        # Else it is an event, or the late reply to an abandoned request or a ping.

    def _await(self, rid: int, check: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        while True:
            buf = self.recv(rid)
            frame = decode(memoryview(buf)[START:])
            if self.answers(frame, rid, buf, check):
                return frame

    def ping(self) -> None:
        """Sends a ping without waiting for its reply, unless the connection is in use."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            if self.cut is None and self._end is None:
                self.transport.send(encode({"t": "ping", "id": self.next_id()}))
        except KubernasiumError as err:
            self._lose(err, err)  # and the next request connects again, or fails alike
        finally:
            self.lock.release()

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._end is not None

    def ended(self) -> KubernasiumError:
        """Returns the exception for a use after the end."""
        cause = self._end
        if isinstance(cause, (ClosedError, ForkedError)):
            return type(cause)(*cause.args)
        return ConnectionLostError(f"the connection was lost ({type(cause).__name__}: {cause}); {self.remedy}")

    @property
    def lost(self) -> bool:
        """Whether the connection has ended without a call of `close`."""
        return self._end is not None and not isinstance(self._end, (ClosedError, ForkedError))

    def fail(self, cause: BaseException) -> None:
        """Ends the connection because of cause."""
        if self._end is None:
            self._end = cause
            self.transport.close()

    def close(self) -> None:
        """Ends the session. Further calls do nothing."""
        self.fail(ClosedError("the connection is closed"))

    def _forked(self) -> None:
        """Gives up a forked child's copy: two processes would read each other's replies."""
        self.lock = threading.Lock()
        if self._end is None:
            self._end = ForkedError(
                f"process {os.getpid()} uses an environment or connection of process {self._pid}, of which it is a "
                "fork; make it in the process that uses it"
            )
            self.transport.abandon()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def missing(part: str, server: str, version: Sequence[int]) -> UnimplementedError:
    """Returns the error for an optional part of the protocol that a server lacks.

    Args:
        part: a key of `SINCE`.
        server: name and version of the server.
        version: of the protocol in its session.
    """
    want, have = (".".join(map(str, numbers)) for numbers in (SINCE[part], version))
    return UnimplementedError(f"the server {server} speaks kubernasium.v1 {have}, which has no {part}; want {want}")


_all: weakref.WeakSet[Connection] = weakref.WeakSet()  # for a fork to give up


def _after_fork() -> None:
    for connection in list(_all):
        connection._forked()
    _all.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
