"""The requests that lead to the present state of a session's environments, to rebuild them at a restarted server.

Equal requests give equal replies, so a new session that replays the journal has the same environments, bit for bit
(section 6.16 of the protocol). Checksums of the replies detect exceptions.
"""

from __future__ import annotations

import heapq
import math
import operator
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from kubernasium.errors import ConnectionLostError
from kubernasium.protocol.checks import integer, need
from kubernasium.protocol.codec import decode, encode
from kubernasium.protocol.transport import START, Buffer

MOST = 64 << 20  # bytes of a vector's requests

# When a client asks for a vector's state, so that it need not repeat what came before: once the requests since the last
# one have taken so many seconds, which is about what repeating them takes, or have so many bytes. States take
# at most one part in SHARE of that time.
STATE_EVERY = 1.0
STATE_BYTES = MOST // 4
SHARE = 50
_CHUNK = 256 << 10  # bytes that are put away together
_SMALL = 96  # mean bytes of the requests that are compressed: many steps of few environments, in little time
_EVERY = 16  # one reply in so many is compared, beside all that are not steps
_HEAD = struct.Struct("<IQI")  # length of the frame, id, check
_LONG = 64 << 10  # bytes of a reply that is folded before its checksum
_FOLD = 1021  # words; a prime, so that rows of a batch that change places meet other words

# Checks of a reply. Greater ones are a checksum that it must have.
_ANY = 0  # nobody got the reply: it may have been a refusal
_ACCEPTED = 1


class CannotRebuildError(ConnectionLostError):
    """The server was restarted, and the environments cannot be rebuilt there."""


class Entry(NamedTuple):
    """A request to replay."""

    rid: int
    frame: bytes
    check: int

    def agrees(self, buf: Buffer) -> bool:
        """Reports whether the reply in buf is the one that the request had."""
        if self.check > _ACCEPTED:
            return checksum(buf) == self.check
        return self.check == _ANY or decode(memoryview(buf)[START:]).get("t") != "err"


def checksum(buf: Buffer) -> int:
    """Returns the checksum of the reply in buf."""
    data, check = memoryview(buf)[START:], 0
    if len(data) >= _LONG:  # sums take a tenth of the time
        rows = len(data) // (8 * _FOLD)
        words = np.frombuffer(data, np.uint64, rows * _FOLD).reshape(rows, _FOLD)
        data, check = data[words.nbytes :], zlib.crc32(np.add.reduce(words, axis=0))
    return max(zlib.crc32(data, check), _ACCEPTED + 1)


class Log:
    """The requests of one vector since `make`, a reset of all its environments with seeds, or its last state.

    A log is also the sink of a step: something that learns how a request ended.

    Attributes:
        cost: seconds that the requests since the last state took; infinite once they have too many bytes.
        wait: the cost from which on to ask for a state; infinite if there is none.
    """

    def __init__(self, rid: int, frame: bytes, made: Mapping[str, Any]) -> None:
        self.eid: int = made["eid"]
        self.num_envs: int = made["n"]
        self._make = Entry(rid, frame, _ACCEPTED)
        self._repeats = not made["spec"].get("nondeterministic", False)
        self.streams = False  # random actions continue their stream, or there are snapshots: no reset begins that anew
        self.seeded = [False] * self.num_envs  # which environments have a random stream
        self._closed: Entry | None = None
        self.wait = STATE_EVERY if made.get("state", False) else math.inf
        self.lost = not self._repeats  # what is here does not lead to the present state
        self._clear()

    def _clear(self) -> None:
        self._packed: list[tuple[bool, list[bytes]]] = []  # whether the only part is compressed, and parts
        self._tail: list[bytes] = []  # of each request its head and its frame, which is not copied
        self._bytes = 0  # in it
        self._size = 0
        self._state: Entry | None = None  # leads to the state before them
        self.cost = 0.0
        self._bulk = STATE_BYTES  # _size with which a state is due

    def asked(self, seconds: float) -> None:
        """Notes that the vector was asked for its state, with or without success, which took so many seconds."""
        self.wait = max(STATE_EVERY, SHARE * seconds)
        self.cost, self._bulk = 0.0, self._size + STATE_BYTES

    def begin_with(self, rid: int, state: bytes) -> None:
        """Forgets what came before request rid, which has returned the vector's state."""
        if self._closed is None and not self.streams:
            self._clear()
            self.lost = False
            frame = encode({"t": "load", "id": rid, "eid": self.eid, "state": state})
            self._state = Entry(rid, frame, _ACCEPTED)

    def accepted(self, rid: int, frame: bytes, buf: Buffer) -> None:
        """Adds a request whose reply is in buf."""
        self.add(rid, frame, _ACCEPTED if rid % _EVERY else checksum(buf))

    def uncertain(self, rid: int, frame: bytes) -> None:
        """Adds a request that was carried out, and whose reply nobody got."""
        self.add(rid, frame, _ANY)

    def refused(self, code: str) -> None:
        """Notes that a request was refused with an error of that code."""
        if code in ("INTERNAL", "DEADLINE_EXCEEDED", "CANCELLED"):  # it may have been carried out in part
            self.forget()

    def add(self, rid: int, frame: bytes, check: int) -> None:
        """Adds a request."""
        if self.lost:
            return
        size = len(frame)
        self._tail += (_HEAD.pack(size, rid, check), frame)
        self._bytes += size + _HEAD.size
        if self._bytes >= _CHUNK:
            self._put_away()
            if self._size > MOST:
                self.forget()

    def _put_away(self) -> None:
        small, parts = self._bytes < _SMALL * len(self._tail) // 2, self._tail
        if small:
            parts = [zlib.compress(b"".join(parts), 1)]
            self._bytes = len(parts[0])
        self._packed.append((small, parts))
        self._size += self._bytes
        self._tail, self._bytes = [], 0
        if self._size >= self._bulk:
            self.cost = math.inf

    def forget(self) -> None:
        """Gives up: until the next reset of all with seeds the environments cannot be rebuilt."""
        self._clear()
        self.lost = True

    def restart(self) -> None:
        """Forgets what came before a reset of all environments with seeds, which is the next to add."""
        if self._repeats and not self.streams:
            self._clear()
            self.lost = False

    def close(self, rid: int, frame: bytes) -> None:
        """Notes that the vector was closed. It must be made again nonetheless, for its number is never used twice."""
        self._clear()
        self._closed = Entry(rid, frame, _ACCEPTED)

    def entries(self) -> Iterator[Entry]:
        """Yields the requests in their order.

        Raises:
            CannotRebuildError: they do not lead to the present state.
        """
        if self.lost and self._closed is None:
            why = (
                f"since their last reset with seeds or state they took more than {MOST >> 20} MiB of requests, were "
                "stepped by `send`, failed, or were interrupted"
                if self._repeats
                else "they are not deterministic"
            )
            raise CannotRebuildError(f"the server was started anew and cannot rebuild the environments: {why}")
        yield self._make
        if self._state is not None:
            yield self._state
        for small, parts in (*self._packed, (False, self._tail)):
            chunk, at = zlib.decompress(parts[0]) if small else b"".join(parts), 0
            while at < len(chunk):
                size, rid, check = _HEAD.unpack_from(chunk, at)
                at += _HEAD.size + size
                yield Entry(rid, chunk[at - size : at], check)
        if self._closed is not None:
            yield self._closed


class Stream:
    """The sink of baselines, snapshots and copies, of which some survive a reset."""

    def __init__(self, log: Log, lasts: bool) -> None:
        """Notes whether the effect survives a reset of all environments with seeds."""
        self._log, self._lasts = log, lasts

    def accepted(self, rid: int, frame: bytes, buf: Buffer) -> None:
        """Adds a request whose reply is in buf."""
        self._log.streams |= self._lasts
        self._log.add(rid, frame, checksum(buf))

    def uncertain(self, rid: int, frame: bytes) -> None:
        """Adds a request that was carried out, and whose reply nobody got."""
        self._log.streams |= self._lasts
        self._log.uncertain(rid, frame)

    def refused(self, code: str) -> None:
        """Notes that the request was refused."""
        self._log.refused(code)


class Torn:
    """The sink of a `send`: which rows a later `recv` returns depends on time, so they are not repeated."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def accepted(self, rid: int, frame: bytes, buf: Buffer) -> None:
        """Gives up: the environments cannot be rebuilt until the next reset of all with seeds."""
        self._log.forget()

    def uncertain(self, rid: int, frame: bytes) -> None:
        """Does the same."""
        self._log.forget()

    def refused(self, code: str) -> None:
        """Does nothing: no step was begun."""


class State:
    """The sink of a `state`."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def accepted(self, rid: int, frame: bytes, buf: Buffer) -> None:
        """Begins the log with the state in buf."""
        self._log.begin_with(rid, decode(memoryview(buf)[START:])["state"])

    def uncertain(self, rid: int, frame: bytes) -> None:
        """Does nothing: what came before is in the log still."""

    def refused(self, code: str) -> None:
        """Does nothing."""


class Reset:
    """The sink of a reset: it writes the seeds that the server drew into the request."""

    def __init__(self, log: Log, fields: Mapping[str, Any]) -> None:
        """Notes the fields of the request."""
        self._log, self._fields = log, fields
        n, seed, mask = log.num_envs, fields.get("seed"), fields.get("mask")
        self._rows = list(range(n)) if mask is None else [i for i in range(n) if mask[i]]
        self._given: list[int | None] = [None] * n
        if isinstance(seed, (list, tuple)):
            self._given = list(seed)
        elif seed is not None:
            self._given = [operator.index(seed) + i for i in range(n)]

    def accepted(self, rid: int, frame: bytes, buf: Buffer) -> None:
        """Adds the reset, whose reply is in buf."""
        log = self._log
        drawn = [i for i in self._rows if self._given[i] is None and not log.seeded[i]]
        check = checksum(buf)
        if drawn:
            first = decode(memoryview(buf)[START:]).get("seed")
            need(integer(first), f"a reset drew seeds, and reset.ok has seed {first!r}")
            for i in drawn:
                self._given[i] = (first + i) % (1 << 64)
            frame, check = encode({"t": "reset", "id": rid, **self._fields, "seed": self._given}), _ACCEPTED
        if len(self._rows) == log.num_envs and None not in self._given:
            log.restart()
        for i in self._rows:
            log.seeded[i] = True
        log.add(rid, frame, check)

    def uncertain(self, rid: int, frame: bytes) -> None:
        """Adds a reset that was carried out, and whose reply nobody got."""
        if any(self._given[i] is None and not self._log.seeded[i] for i in self._rows):
            self._log.forget()  # with seeds that nobody knows
            return
        for i in self._rows:
            self._log.seeded[i] = True
        self._log.uncertain(rid, frame)

    def refused(self, code: str) -> None:
        """Notes that the reset was refused."""
        self._log.refused(code)


class _Make:
    """The sink of a `make`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def accepted(self, rid: int, frame: bytes, buf: Buffer) -> None:
        """Begins the log of the vector that buf describes."""
        log = Log(rid, frame, decode(memoryview(buf)[START:]))
        self._journal.logs[log.eid] = log

    def uncertain(self, rid: int, frame: bytes) -> None:
        """Notes a vector that the session may have, and whose number nobody knows."""
        self._journal.unknown = True

    def refused(self, code: str) -> None:
        """Does nothing: no vector was made."""


class _Close:
    """The sink of a `close`."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def accepted(self, rid: int, frame: bytes, buf: Buffer) -> None:
        """Ends the log."""
        self._log.close(rid, frame)

    def uncertain(self, rid: int, frame: bytes) -> None:
        """Ends the log: nothing can have refused the request."""
        self._log.close(rid, frame)

    def refused(self, code: str) -> None:
        """Does nothing."""


Sink = Log | Stream | State | Torn | Reset | _Make | _Close

_STREAMS = frozenset(("policy", "rollout", "snapshot", "restore", "forget", "fork"))


class Journal:
    """The logs of a session's vectors.

    Attributes:
        logs: by the number of the vector.
        unknown: a vector may have been made whose number nobody knows.
    """

    def __init__(self) -> None:
        self.logs: dict[int, Log] = {}
        self.unknown = False

    def sink(self, kind: str, fields: Mapping[str, Any]) -> Sink | None:
        """Returns what learns how a request ends; None if it changes no environment.

        Args:
            kind: `t` of the request.
            fields: its other fields, without the id.
        """
        if kind == "make":
            return _Make(self)
        log = self.logs.get(fields.get("eid", 0))
        if log is None:
            return None
        if kind in _STREAMS or (kind == "step" and "policy" in fields):
            random = fields.get("policy", fields.get("name")) == "random"
            return Stream(log, random or kind in ("snapshot", "restore", "forget"))
        if kind == "step":
            return log
        if kind == "state":
            return State(log)
        if kind == "send":
            return Torn(log)
        if kind == "reset":
            return Reset(log, fields)
        return _Close(log) if kind == "close" else None

    def entries(self) -> Iterator[Entry]:
        """Yields all requests in the order of their ids.

        Raises:
            CannotRebuildError: they do not lead to the present state.
        """
        if self.unknown:
            raise CannotRebuildError(
                "the server was started anew, and a `make` was interrupted before: its vectors are lost"
            )
        yield from heapq.merge(*(log.entries() for log in self.logs.values()))
