"""A vector of environments at a server, in terms of the protocol: no Gymnasium needed."""

from __future__ import annotations

import contextlib
import operator
import struct
from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from kubernasium.errors import (
    InvalidActionError,
    KubernasiumError,
    NoPendingStepError,
    PendingStepError,
    UnknownOptionError,
)
from kubernasium.protocol import checks
from kubernasium.protocol.at_server import AtServer
from kubernasium.protocol.codec import encode
from kubernasium.protocol.connection import Connection
from kubernasium.protocol.layout import Layout, read_id
from kubernasium.protocol.send_recv import SendRecv
from kubernasium.protocol.transport import START, Buffer
from kubernasium.protocol.values import batch_of_one, contiguous, copied, made_with, plain, working_directory

_ID = struct.Struct(">Q")
_MAX_LAYOUTS = 512  # lengths of replies differ with the number of episodes that end in a step


class Vector(SendRecv, AtServer):
    """n environments of one kind that are stepped together, or one by one by `send` and `recv`.

    `reset` and `step` return the fields of the protocol's batches: a map with `obs` and,
    after a step, `r`, and those of `te`, `tr`, `inv`, `mask`, `info`, `fin`, `ep`, `env_error` that are not
    absent (section 7 of the protocol says what absence means). Arrays are views of the reply,
    which is theirs alone: writable, and valid for as long as they are used. Without `copy`, `obs` may instead be a
    view of memory that the server writes: it holds until the second next `step`, `reset` or `recv` of such a vector on
    this connection.

    Attributes:
        eid: number of the vector in its session.
        env_id: full id of the environment.
        num_envs: n.
        copy: see above.
        autoreset: `"NEXT_STEP"`, `"SAME_STEP"` or `"DISABLED"`.
        max_episode_steps: time limit in force; 0 is none.
        obs_space, act_space: descriptions of the spaces of one environment.
        copies: whether the environments can be copied, for `snapshot` and `fork`.
        mask_size: length of a row of the action mask; 0 if there is none.
        spec: the environment's description.
        features: names of the elements of an observation, by part; empty if there are none.
    """

    def __init__(
        self,
        connection: Connection,
        env_id: str,
        num_envs: int = 1,
        *,
        options: Mapping[str, Any] | None = None,
        autoreset: str = "NEXT_STEP",
        max_episode_steps: int | None = None,
        threads: int | None = None,
        env_error: bool = False,
        obs_keys: Sequence[str] | None = None,
        copy: bool = True,
    ) -> None:
        """Makes the environments.

        Args:
            connection: the session.
            env_id: their id at the server.
            num_envs: n.
            options: those of the environment.
            autoreset: see above.
            max_episode_steps: time limit in place of the environment's.
            threads: for the server to step with; it changes no result.
            env_error: whether a failure of an environment ends its episode instead of the request.
            obs_keys: parts of a Dict that observations are to have; None is all.
            copy: whether observations are arrays of their own.

        Raises:
            InvalidOptionError: an option or a part is unknown or out of range.
            UnimplementedError: the server is too old for `env_error` or `obs_keys`.
        """
        parts = made_with(env_error, obs_keys)
        for part in parts:
            connection.need(part)
        try:
            made = connection.request(
                "make",
                env=env_id,
                n=num_envs,
                options=plain(options) if options else None,
                autoreset=autoreset,
                max_episode_steps=max_episode_steps,
                threads=threads,
                cwd=working_directory() if options and connection.local else None,
                state=True if connection.journal is not None and "state" in connection.caps else None,
                **parts,
            )
        except UnknownOptionError as err:
            raise err.of(env_id) from None
        self.connection = connection
        self.copy, self._lend = copy, not copy
        self.eid: int = made["eid"]
        self.env_id: str = made["env"]
        self.num_envs: int = made["n"]
        self.autoreset: str = made["autoreset"]
        self.max_episode_steps: int = made["max_episode_steps"]
        self.obs_space: dict[str, Any] = made["obs_space"]
        self.act_space: dict[str, Any] = made["act_space"]
        self.mask_size: int = made["mask"]
        self.copies: bool = made.get("copies", False)
        self.spec: dict[str, Any] = made["spec"]
        self.features: list[dict[str, Any]] = made.get("features", [])
        self._batches = checks.Batches(made)
        self._pending = 0  # id of the step whose reply is outstanding
        self._layouts: dict[int, Layout] = {}
        self._log = connection.log(self.eid)
        self._sent = 0.0  # when the last step or reset was sent, by perf_counter
        self._prepare()

    def _prepare(self) -> None:
        """Writes the parts of a step request that are always the same."""
        kind = self.act_space["kind"]
        self._dtype: np.dtype | None = None
        if kind != "dict":
            self._dtype = np.dtype(self.act_space["dtype"])
            shape = () if kind == "discrete" else tuple(self.act_space["shape"])
            self._shape = (self.num_envs, *shape)
            self._head, self._middle = self._template(np.zeros(self._shape, self._dtype))
        frame = encode({"t": "reset", "id": 1 << 32, "eid": self.eid})
        at = frame.index(b"\xa2id\xcf") + 4
        self._reset_parts = frame[:at], frame[at + 8 :]
        self._one: struct.Struct | None = None
        if kind == "discrete" and self.num_envs == 1:
            head, middle = self._template(0)  # the number is one byte there and nine in the struct
            self._one_parts = (head, middle[:-1] + b"\xd3")
            self._one = struct.Struct(f">{len(head)}sQ{len(middle)}sq")

    def _template(self, actions: Any) -> tuple[bytes, bytes]:
        """Returns what stands before the id and between id and elements of a step request."""
        frame = encode({"t": "step", "id": 1 << 32, "eid": self.eid, "a": actions})
        at = frame.index(b"\xa2id\xcf") + 4
        size = actions.nbytes if isinstance(actions, np.ndarray) else 0
        return frame[:at], frame[at + 8 : len(frame) - size]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: np.ndarray | None = None,
    ) -> dict[str, Any]:
        """Starts an episode in each environment, or in those that mask selects.

        Args:
            seed: s gives environment i the random seed s+i; a sequence gives each its own.
            options: reset options, for every environment that is reset.
            mask: bools of shape (n,).
        """
        self._idle()
        message: dict[str, Any] = {}
        if seed is not None:
            message["seed"] = list(seed) if isinstance(seed, (Sequence, np.ndarray)) else operator.index(seed)
        if options:
            message["options"] = plain(options)
        if mask is not None:
            message["mask"] = np.asarray(mask, np.bool_)
        connection = self.connection
        self._sent = perf_counter()
        with connection.lock:
            rid = connection.next_id()
            if message:
                frame = encode({"t": "reset", "id": rid, "eid": self.eid, **message})
            else:
                frame = self._reset_parts[0] + _ID.pack(rid) + self._reset_parts[1]
            connection.send(frame, rid, connection.sink("reset", {"eid": self.eid, **message}), lend=self._lend)
            buf, layout = self._receive(rid, "reset")
        self._forget_missed()
        self._keep_state()
        return self._fields(buf, layout)

    def _keep_state(self) -> None:
        """Has the journal begin with the present state when that is due, after a step or a reset."""
        log = self._log
        if log is None:
            return
        now = perf_counter()
        log.cost += now - self._sent
        if log.cost < log.wait or log.streams:
            return
        with contextlib.suppress(KubernasiumError):  # the next request reports a lost connection
            self.connection.request("state", eid=self.eid)
        log.asked(perf_counter() - now)

    def step(self, actions: Any = None, *, policy: str | None = None, seed: int | None = None) -> dict[str, Any]:
        """Steps every environment, by actions or by a baseline at the server.

        Args:
            actions: a batch of n actions: an array of shape (n, ...), or for a dict space a
                map of such arrays; or
            policy: one of `spec["baselines"]`, or `"random"`. It may choose more than its
                actions say.
            seed: restarts the stream of random actions.

        Raises:
            InvalidActionError: an action is outside the space; nothing was stepped.
            ResetNeededError: an environment waits for a reset.
            UnknownBaselineError: there is no such baseline.
            BaselineError: it cannot act with these options, or in this state.
            UnimplementedError: the server is too old for policy.
        """
        self.step_async(actions, policy=policy, seed=seed)
        return self.step_wait()

    def step_async(self, actions: Any = None, *, policy: str | None = None, seed: int | None = None) -> None:
        """Sends the request of `step` and returns at once; `step_wait` gets the reply."""
        self._idle()
        if policy is not None or seed is not None:
            if policy is None or actions is not None:
                raise TypeError("step takes actions, or a policy that acts and its seed")
            self.connection.need("baseline")
            fields = {"policy": policy} if seed is None else {"policy": policy, "seed": seed}
        elif self._dtype is None:
            fields = {"a": contiguous(actions)}
        else:
            fields, data = None, self._array(actions, self.num_envs).tobytes()
        connection = self.connection
        self._sent = perf_counter()
        with connection.lock:
            rid = connection.next_id()
            if fields is None:
                connection.send(self._head + _ID.pack(rid) + self._middle + data, rid, self._log, lend=self._lend)
            else:
                fields["eid"] = self.eid
                sink = connection.sink("step", fields)
                connection.send(encode({"t": "step", "id": rid, **fields}), rid, sink, lend=self._lend)
            connection.expect(rid)
        self._pending = rid

    def step_wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Returns the reply to the last `step_async`.

        Args:
            timeout: seconds after which to give up with TimeoutError; the step still runs and
                `step_wait` can be called again. By default the timeout of the connection.
        """
        return self._fields(*self.step_wait_frame(timeout))

    def step_wait_frame(self, timeout: float | None = None) -> tuple[Buffer, Layout]:
        """Is `step_wait` for callers that read the reply faster than as a map of arrays.

        Returns:
            The reply and its layout.
        """
        if not self._pending:
            raise NoPendingStepError("step_wait without step_async")
        rid, self._pending = self._pending, 0
        if timeout is not None and not self.connection.poll(rid, timeout):
            self._pending = rid
            raise TimeoutError(f"no reply within {timeout} s; the step still runs")
        with self.connection.lock:
            received = self._receive(rid, "step")
        self._keep_state()
        return received

    def step_one(
        self, action: Any = None, *, policy: str | None = None, seed: int | None = None
    ) -> tuple[Buffer, Layout]:
        """Steps the only environment; see `step` for policy and seed.

        Returns:
            The reply and its layout, for callers that read single values faster than arrays.
        """
        if self._pending:
            self._idle()
        connection = self.connection
        if self._one is not None and policy is None and seed is None:
            self._sent = perf_counter()
            with connection.lock:
                rid = connection.next_id()
                try:
                    frame = self._one.pack(self._one_parts[0], rid, self._one_parts[1], operator.index(action))
                except (TypeError, struct.error) as err:
                    raise InvalidActionError(f"action {action!r} is no integer of the action space") from err
                connection.send(frame, rid, self._log)
                received = self._receive(rid, "step")
            self._keep_state()
            return received
        batch = None if action is None and policy is not None else batch_of_one(action)
        self.step_async(batch, policy=policy, seed=seed)
        rid, self._pending = self._pending, 0
        with connection.lock:
            received = self._receive(rid, "step")
        self._keep_state()
        return received

    def _batch(self, actions: Any, n: int) -> Any:
        """Returns n actions as the protocol has them."""
        return contiguous(actions) if self._dtype is None else self._array(actions, n)

    def _array(self, actions: Any, n: int) -> np.ndarray:
        array = np.asarray(actions)
        if array.dtype != self._dtype:
            if array.size and not np.can_cast(array.dtype, self._dtype, "same_kind"):
                raise InvalidActionError(f"actions of dtype {array.dtype}, want {self._dtype}")
            array = array.astype(self._dtype)
        if array.shape != (n, *self._shape[1:]):
            raise InvalidActionError(f"actions of shape {array.shape}, want {(n, *self._shape[1:])}")
        return array

    def _fields(self, buf: Buffer, layout: Layout) -> dict[str, Any]:
        """Returns the fields of a batch. If the server may overwrite it, those beside the observations are copied."""
        reply = layout.view(buf)
        if isinstance(buf, memoryview):
            for key, value in reply.items():
                if key != "obs":
                    reply[key] = copied(value)
        return reply

    def _receive(self, rid: int, kind: str, keep: bool = False) -> tuple[Buffer, Layout]:
        """Returns the reply to request rid of a kind, which keep saves after an interrupt. The caller holds the lock.

        Replies of one layout have the same arrays, so only the first one is checked.
        """
        connection = self.connection
        buf = connection.recv(rid, keep=keep)
        layout = self._layouts.get(len(buf))
        if (
            layout is not None
            and layout.kind == kind
            and layout.unpack(buf) == layout.consts
            and read_id(buf, layout) == rid
        ):
            if layout.numbers:
                self._check_numbers(buf, layout)
            connection.settle(rid, buf)
            return buf, layout
        check = partial(self._batches.check, kind=kind)
        while True:
            try:
                layout = Layout(buf, START)
            except KubernasiumError as err:
                connection.fail(err)
                raise
            if connection.answers(layout.message | {"id": read_id(buf, layout)}, rid, buf, check):
                break
            buf = connection.recv(rid, keep=keep)
        layout.kind, layout.numbers = kind, checks.numbers_of(layout.message)
        self._check_numbers(buf, layout)
        if layout.id_at >= 0:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts[len(buf)] = layout
        return buf, layout

    def _check_numbers(self, buf: Buffer, layout: Layout) -> None:
        """Checks the numbers of environments in a reply."""
        rows = [(key, field.view(buf)) for key, field in layout.numbers]
        self.connection.checked(lambda rows: checks.check_rows(rows, self.num_envs), rows)

    def _idle(self) -> None:
        if self._pending:
            raise PendingStepError("a step is pending; call step_wait first")

    def render(self, index: int = 0, mode: str = "ansi") -> str | np.ndarray:
        """Returns environment index as text (`ansi`) or uint8 of shape (h, w, 3) (`rgb_array`)."""
        self._idle()
        frame = self.connection.request("render", eid=self.eid, idx=index, mode=mode).get("frame")
        self.connection.checked(partial(checks.rendered, mode=mode), frame)
        return frame

    def stats(self) -> dict[str, Any]:
        """Returns the server's counts of steps, resets and episodes, and its times."""
        self._idle()
        return self.connection.request("stats", eid=self.eid)

    def close(self) -> None:
        """Frees the environments, if the connection still stands."""
        if self.eid and not self.connection.closed:
            if self._pending:
                self.step_wait()
            self.connection.request("close", eid=self.eid)
        self.eid = 0
