"""One vector on several servers, each of which has some of its rows."""

from __future__ import annotations

import contextlib
import itertools
import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kubernasium.errors import (
    InvalidActionError,
    KubernasiumError,
    NoCopiesError,
    NoPendingStepError,
    PendingStepError,
    ResetNeededError,
    UnimplementedError,
    UnknownSnapshotError,
)
from kubernasium.protocol.merge import Reply, blank, joined, merged, split
from kubernasium.protocol.vector import Vector

_KEPT = ("obs", "mask", "info")  # what a reset leaves alone in rows that it does not select


class Sessions:
    """The connections of a `Spread`, as far as its users see them as one."""

    def __init__(self, parts: Sequence[Vector]) -> None:
        self._all = [part.connection for part in parts]

    @property
    def closed(self) -> bool:
        """Whether one has ended."""
        return any(connection.closed for connection in self._all)

    @property
    def lost(self) -> bool:
        """Whether one has ended without a call of `close`."""
        return any(connection.lost for connection in self._all)

    def ended(self) -> KubernasiumError:
        """Returns the exception for a use after the end."""
        return next(connection for connection in self._all if connection.closed).ended()

    def close(self) -> None:
        """Ends all sessions. Further calls do nothing."""
        for connection in self._all:
            connection.close()


class Spread:
    """n environments of one kind on several servers, which step at the same time: a `Vector` for its users.

    Row i is environment i with the seeds of row i, so replies equal those of one server, bit for bit. Two things
    differ: the baseline `"random"` draws for each server by itself, and `send`, `recv` and `rollout` are not there.
    After an interrupt, such as Ctrl-C's, and after an error of a single server, all rows must be reset.

    Attributes:
        parts: the vectors, each with a session of its own.
        first: the row of each part's first environment; then n.
        connection: the sessions.
        num_envs: n. The further attributes are those of `Vector`.
    """

    def __init__(self, parts: Sequence[Vector]) -> None:
        """Takes ownership of vectors of one environment, made with equal arguments."""
        self.parts = list(parts)
        self.first = [0, *itertools.accumulate(part.num_envs for part in parts)]
        self.connection = Sessions(parts)
        self.num_envs = self.first[-1]
        one = parts[0]
        self.env_id, self.autoreset, self.max_episode_steps = one.env_id, one.autoreset, one.max_episode_steps
        self.obs_space, self.act_space, self.mask_size = one.obs_space, one.act_space, one.mask_size
        self.copies, self.spec, self.features = one.copies, one.spec, one.features
        self._running = np.zeros(self.num_envs, np.bool_)  # may be stepped
        self._ended = np.zeros(self.num_envs, np.bool_)  # begin an episode with the next step, whatever the action
        self._last: list[Reply | None] = [None] * len(parts)
        self._stepping = False
        self._waits: list[Reply | KubernasiumError | None] = []  # replies to the step that have come
        self._snapshots: dict[int, tuple[list[int], np.ndarray, np.ndarray]] = {}
        self._count = 0

    @property
    def sizes(self) -> list[int]:
        """How many environments each part has."""
        return np.diff(self.first).tolist()

    def _spans(self) -> Iterator[tuple[Vector, int, int]]:
        """Yields the parts with their first rows and the rows after their last."""
        return zip(self.parts, self.first[:-1], self.first[1:], strict=True)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Stops the rows if not all parts did what was asked."""
        try:
            yield
        except BaseException:
            self._running[:] = False
            raise

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: np.ndarray | None = None,
    ) -> Reply:
        """Starts an episode in each environment, or in those that mask selects; see `Vector.reset`."""
        self._idle()
        self._drain()
        if isinstance(seed, (Sequence, np.ndarray)) and len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds for {self.num_envs} environments")
        chosen = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask, np.bool_)
        replies: list[Reply | None] = []
        self._running[chosen] = False
        for part, low, high in self._spans():
            if not chosen[low:high].any():
                replies.append(None)
                continue
            if isinstance(seed, (Sequence, np.ndarray)):
                own: Any = list(seed[low:high])
            else:
                own = None if seed is None else (operator.index(seed) + low) % (1 << 64)
            with _rows(low):
                replies.append(part.reset(seed=own, options=options, mask=None if mask is None else chosen[low:high]))
        out = self._keep([reply or self._untouched(k, replies) for k, reply in enumerate(replies)])
        self._running[chosen] = True
        self._ended[chosen] = False
        return out

    def _untouched(self, k: int, replies: Sequence[Reply | None]) -> Reply:
        """Returns what part k had before a reset that selects none of its rows; zeros before the first."""
        last = self._last[k]
        if last is not None:
            return {key: last[key] for key in _KEPT if key in last}
        like = next(reply for reply in replies if reply is not None)
        return {key: blank(like[key], self.parts[k].num_envs) for key in _KEPT if key in like}

    def _keep(self, replies: list[Reply]) -> Reply:
        """Remembers the replies of the parts, and returns them as one."""
        self._last = list(replies)
        return merged(replies, self.first)

    def step(self, actions: Any = None, *, policy: str | None = None, seed: int | None = None) -> Reply:
        """Steps every environment; see `Vector.step`."""
        self.step_async(actions, policy=policy, seed=seed)
        return self.step_wait()

    def step_async(self, actions: Any = None, *, policy: str | None = None, seed: int | None = None) -> None:
        """Sends the requests of `step` and returns at once; `step_wait` gets the replies."""
        self._idle()
        if not self._running.all():
            row = int(np.flatnonzero(~self._running)[0])
            raise ResetNeededError(f"environment {row}: step before reset, or after the end of an episode or an error")
        batch = None
        if policy is None and seed is None:
            batch = self.parts[0]._batch(actions, self.num_envs)
            self._check(batch)
        with self._whole():
            for part, low, high in self._spans():
                with _rows(low):
                    if batch is None:
                        own = None if seed is None else seed + low
                        part.step_async(actions, policy=policy, seed=own)
                    else:
                        part.step_async(split(batch, low, high))
        self._stepping, self._waits = True, [None] * len(self.parts)

    def _check(self, batch: Any) -> None:
        """Rejects actions outside the space before any server steps. Rows whose episode has ended ignore theirs."""
        bad = _outside(batch, self.act_space, self.num_envs) & ~self._ended
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise InvalidActionError(f"environment {row}: {_row(batch, row)} not in {_name(self.act_space)}")

    def step_wait(self, timeout: float | None = None) -> Reply:
        """Returns the replies to the last `step_async`; see `Vector.step_wait`."""
        if not self._stepping:
            raise NoPendingStepError("step_wait without step_async")
        self._wait(timeout)
        self._stepping = False
        for got in self._waits:
            if isinstance(got, KubernasiumError):
                self._running[:] = False
                raise got
        out = self._keep([got for got in self._waits if isinstance(got, dict)])
        over = out.get("te", False) | out.get("tr", np.zeros(self.num_envs, np.bool_))
        if self.autoreset == "DISABLED":
            self._running &= ~over
        elif self.autoreset == "NEXT_STEP":
            self._ended = over
        return out

    def _wait(self, timeout: float | None) -> None:
        """Receives the replies that have not come, or errors in their place."""
        end = None if timeout is None else time.monotonic() + timeout
        for k, (part, low, _) in enumerate(self._spans()):
            if self._waits[k] is None:
                try:
                    with _rows(low):
                        self._waits[k] = part.step_wait(None if end is None else max(0.0, end - time.monotonic()))
                except KubernasiumError as err:  # the others' replies must be read, too
                    self._waits[k] = err
                except TimeoutError:
                    raise
                except BaseException:  # an interrupt, after which the rows are in different steps
                    self._stepping, self._running[:] = False, False
                    raise

    def _drain(self) -> None:
        """Reads what an interrupt has left."""
        for part in self.parts:
            if part._pending:
                with contextlib.suppress(KubernasiumError):
                    part.step_wait()

    def _idle(self) -> None:
        if self._stepping:
            raise PendingStepError("a step is pending; call step_wait first")

    def policy(self, name: str, *, seed: int | None = None) -> Any:
        """Returns the actions that a baseline takes in this state; see `Vector.policy`."""
        self._idle()
        actions = []
        for part, low, _ in self._spans():
            with _rows(low):
                actions.append(part.policy(name, seed=None if seed is None else seed + low))
        return joined(actions)

    def rollout(self, *args: Any, **kwargs: Any) -> Reply:
        """Raises an error: servers would stop after different numbers of steps."""
        raise UnimplementedError("rollout of a vector on several servers; call step(policy=name), or give one URL")

    def send(self, *args: Any, **kwargs: Any) -> None:
        """Is refused."""
        raise UnimplementedError("send of a vector on several servers; call step, or give one URL")

    def recv(self, *args: Any, **kwargs: Any) -> Reply:
        """Is refused."""
        raise UnimplementedError("recv of a vector on several servers; call step, or give one URL")

    def snapshot(self) -> int:
        """Has the servers keep the state of all environments, random generators included; see `Vector.snapshot`."""
        self._idle()
        ids = [part.snapshot() for part in self.parts]
        self._count += 1
        self._snapshots[self._count] = (ids, self._running.copy(), self._ended.copy())
        return self._count

    def restore(self, snapshot: int) -> Reply:
        """Returns all environments to the state of a snapshot; see `Vector.restore`."""
        self._idle()
        ids, running, ended = self._known(snapshot)
        with self._whole():
            out = self._keep([part.restore(own) for part, own in zip(self.parts, ids, strict=True)])
        self._running, self._ended = running.copy(), ended.copy()
        return out

    def forget(self, snapshot: int) -> None:
        """Frees a snapshot."""
        self._idle()
        ids, _, _ = self._known(snapshot)
        for part, own in zip(self.parts, ids, strict=True):
            part.forget(own)
        del self._snapshots[snapshot]

    def _known(self, snapshot: int) -> tuple[list[int], np.ndarray, np.ndarray]:
        if snapshot not in self._snapshots:
            raise UnknownSnapshotError(f"snapshot {snapshot} is not of this vector, or was forgotten")
        return self._snapshots[snapshot]

    def fork(self, source: int, targets: Sequence[int]) -> Reply:
        """Makes environments copies of another one of the same server; see `Vector.fork`.

        Raises:
            NoCopiesError: they are on different servers; `sizes` tells which are together.
        """
        self._idle()
        rows = [operator.index(i) for i in (source, *targets)]
        if not all(0 <= i < self.num_envs for i in rows):
            raise IndexError(f"fork of environment {source} to {list(targets)}, of {self.num_envs}")
        k = int(np.searchsorted(self.first, rows[0], side="right")) - 1
        low, high = self.first[k], self.first[k + 1]
        if not all(low <= i < high for i in rows):
            raise NoCopiesError(f"fork of environment {source} to {list(targets)}: they are on different servers")
        reply = self.parts[k].fork(rows[0] - low, [i - low for i in rows[1:]])
        for flags in (self._running, self._ended):
            flags[rows[1:]] = flags[rows[0]]
        return self._keep([reply if j == k else self._again(j) for j in range(len(self.parts))])

    def _again(self, k: int) -> Reply:
        """Returns the last reply of part k as `restore` would."""
        last = self._last[k] or {}
        kept = {key: last[key] for key in (*_KEPT, "r", "te", "tr", "inv") if key in last}
        return {"r": np.zeros(self.parts[k].num_envs)} | kept

    def render(self, index: int = 0, mode: str = "ansi") -> str | np.ndarray:
        """Returns environment index as text or as an image; see `Vector.render`."""
        self._idle()
        if not 0 <= index < self.num_envs:
            raise IndexError(f"environment {index} of {self.num_envs}")
        k = int(np.searchsorted(self.first, index, side="right")) - 1
        with _rows(self.first[k]):
            return self.parts[k].render(index - self.first[k], mode)

    def stats(self) -> Reply:
        """Returns the sums of the servers' counts of steps and episodes, and the most of the rest."""
        self._idle()
        all_of = [part.stats() for part in self.parts]
        numbers = [key for key, value in all_of[0].items() if isinstance(value, (int, float)) and key != "id"]
        return {key: (sum if key in ("steps", "episodes") else max)(one[key] for one in all_of) for key in numbers}

    def close(self) -> None:
        """Frees the environments, if the connections still stand."""
        for part in self.parts:
            part.close()


@contextlib.contextmanager
def _rows(low: int) -> Iterator[None]:
    """Counts the row of an error from the vector's first."""
    try:
        yield
    except KubernasiumError as err:
        err.counted_from(low)
        raise


def _outside(batch: Any, space: Mapping[str, Any], n: int) -> np.ndarray:
    """Returns which rows of a batch are outside a space of section 5 of the protocol."""
    kind = space["kind"]
    if kind == "dict":
        out = np.zeros(n, np.bool_)
        for key, part in zip(space["keys"], space["parts"], strict=True):
            if not isinstance(batch, Mapping) or key not in batch:
                raise InvalidActionError(f"actions without {key!r}")
            value = np.asarray(batch[key]) if part["kind"] != "dict" else batch[key]
            out |= _outside(value, part, n)
        return out
    if len(batch) != n:
        raise InvalidActionError(f"{len(batch)} actions for {n} environments")
    flat = batch.reshape(n, -1)
    if kind == "box":
        low, high = (np.array([float(x) for x in space[key]]) for key in ("low", "high"))
        inside = (flat >= low) & (flat <= high)
    else:
        most = 2 if kind == "multi_binary" else np.array(space["n"])
        inside = (flat >= 0) & (flat < most)
    return ~inside.all(axis=1)


def _row(batch: Any, row: int) -> Any:
    """Returns an action of a batch for messages."""
    if isinstance(batch, Mapping):
        return {key: _row(part, row) for key, part in batch.items()}
    return np.asarray(batch)[row].tolist()


def _name(space: Mapping[str, Any]) -> str:
    """Returns a space for messages: a server writes those without parts so."""
    kind = space["kind"]
    if kind == "dict":
        parts = zip(space["keys"], space["parts"], strict=True)
        return f"Dict({', '.join(f'{key}: {_name(part)}' for key, part in parts)})"
    if kind == "box":
        return f"Box({space['low']}, {space['high']}, {space['shape']})"
    name = {"discrete": "Discrete", "multi_discrete": "MultiDiscrete", "multi_binary": "MultiBinary"}[kind]
    return f"{name}({space['n'] if kind == 'multi_discrete' else space['n'][0]})"


def spread(makers: Sequence[Callable[[int], Vector]], sizes: Sequence[int]) -> Spread:
    """Makes a part of each size that is not 0, and closes those that were made if one cannot be."""
    parts: list[Vector] = []
    try:
        for make, size in zip(makers, sizes, strict=True):
            if size:
                parts.append(make(size))
    except BaseException:
        for part in parts:
            part.connection.close()
        raise
    return Spread(parts)
