"""Steps of single environments of a vector: `send` begins them, `recv` returns those that ended first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kubernasium.errors import InvalidActionError, KubernasiumError, UnavailableError
from kubernasium.protocol.codec import encode

if TYPE_CHECKING:
    from kubernasium.protocol.connection import Connection
    from kubernasium.protocol.layout import Layout
    from kubernasium.protocol.transport import Buffer

_LATE = 5.0  # seconds that the reply to a cancelled request may take; the server promises 0.25


class SendRecv:
    """The part of a `Vector` that steps its environments one by one (section 6.18 of the protocol)."""

    connection: Connection
    eid: int
    num_envs: int
    _lend: bool  # the observations may stay in shared memory
    _interrupted = 0  # id of a recv that was interrupted, whose reply may hold rows

    def send(self, actions: Any, rows: Sequence[int] | np.ndarray | None = None) -> None:
        """Starts a step in each of rows, and returns at once.

        Each environment takes the same steps as by `step`. Until all are received, calls other than `send`, `recv`,
        `stats` and `close` raise PendingStepError. After a lost connection such a session is resumed, but it can be
        rebuilt at a restarted server only after the next reset of all environments with seeds.

        Args:
            actions: a batch of k actions; row j is for environment rows[j].
            rows: k different environments; None is all of them, in their order.

        Raises:
            InvalidActionError: an action is outside the space; no step was begun.
            PendingStepError: the last step of one of rows was not received; no step was begun.
            ResetNeededError: an environment waits for a reset.
            UnimplementedError: the server is too old.
        """
        self._idle()
        self.connection.need("async")
        idx = None if rows is None else indices(rows)
        batch = self._batch(actions, self.num_envs if idx is None else len(idx))
        self.connection.request("send", eid=self.eid, idx=idx, a=batch)

    def recv(self, least: int = 1, most: int | None = None, *, timeout: float | None = None) -> dict[str, Any]:
        """Waits until steps of `send` have ended, and returns their rows.

        An interrupt, such as Ctrl-C's, loses none: the next `recv` returns them.

        Args:
            least: how many to wait for; if fewer are pending, all of them.
            most: how many rows to return at most; None is all that have ended.
            timeout: seconds after which to return the rows that have ended, of which there may be none. By default
                the timeout of the connection, after which that is lost.

        Returns:
            The fields of a step's batch with a row for each of k steps, and `idx`, int32 of shape (k,), their
            environments in ascending order. In `fin`, `ep` and `env_error`, `idx` counts the rows of this reply.

        Raises:
            NoPendingStepError: no step is pending.
            ServerFaultError: an environment failed, and the vector was made without `env_error`; reset all.
            UnimplementedError: the server is too old.
        """
        self._idle()
        connection = self.connection
        connection.need("async")
        missed = self._missed()
        if missed is not None:
            return missed
        fields: dict[str, Any] = {"eid": self.eid, "min": least}
        if most is not None:
            fields["max"] = most
        if timeout is not None:
            fields["wait_ms"] = int(timeout * 1e3)
        with connection.lock:
            rid = connection.next_id()
            connection.send(encode({"t": "recv", "id": rid, **fields}), rid, lend=self._lend)
            with self._kept(rid):
                buf, layout = self._receive(rid, "recv", keep=True)
        return self._fields(buf, layout)

    def _missed(self) -> dict[str, Any] | None:
        """Returns the reply to a `recv` that was interrupted, if that has rows."""
        rid, self._interrupted = self._interrupted, 0
        if not rid:
            return None
        connection = self.connection
        try:
            with self._kept(rid):
                if not connection.poll(rid, _LATE):
                    connection.drop(rid)
                    return None
                with connection.lock:
                    buf, layout = self._receive(rid, "recv", keep=True)
        except UnavailableError as err:
            if err.code != "CANCELLED":
                raise
            return None
        return self._fields(buf, layout)

    @contextlib.contextmanager
    def _kept(self, rid: int) -> Iterator[None]:
        """Keeps the reply to a `recv` for the next one if an interrupt ends the wait for it."""
        try:
            yield
        except KubernasiumError:
            raise
        except BaseException:
            self._interrupted = rid
            raise

    def _forget_missed(self) -> None:
        """Drops the reply to a `recv` that was interrupted, because a reset makes it void."""
        if self._interrupted:
            self.connection.drop(self._interrupted)
            self._interrupted = 0

    def _idle(self) -> None:
        raise NotImplementedError  # of Vector

    def _batch(self, actions: Any, n: int) -> Any:
        raise NotImplementedError  # of Vector

    def _fields(self, buf: Buffer, layout: Layout) -> dict[str, Any]:
        raise NotImplementedError  # of Vector

    def _receive(self, rid: int, kind: str, keep: bool = False) -> tuple[Buffer, Layout]:
        raise NotImplementedError  # of Vector


def indices(rows: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns numbers of environments as an array to send."""
    array = np.asarray(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidActionError(f"environments {rows!r}, want a sequence of their numbers, such as [0, 2]")
    return array.astype(np.int32)
