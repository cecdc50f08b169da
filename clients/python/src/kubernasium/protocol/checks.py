"""Checks of replies: a server may be broken, or be none of this protocol.

Without them, arrays of wrong shapes would reach the user as observations or rewards. The checks of a `Layout` take no
time in later replies of that layout; only numbers of rows differ there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kubernasium.errors import ProtocolError

_KINDS = {"box": "float32", "discrete": "int64", "multi_discrete": "int64", "multi_binary": "int8"}
_DEPTH = 16
_LONGEST = 400  # characters of an error
_COLUMNS = ("float64", "int64", "bool")
_STEPPED = frozenset(("step", "recv", "rollout", "restore", "fork", "load"))

Message = Mapping[str, Any]


def need(right: bool, what: str) -> None:
    """Raises an error that names what a reply lacks, unless it is right."""
    if not right:
        raise ProtocolError(f"the server violates the protocol: {what[:_LONGEST]}")


def integer(value: Any, least: int = 0) -> bool:
    """Reports whether a value is an integer that is not below least."""
    return type(value) is int and value >= least


def replied(message: Message, kind: str) -> None:
    """Checks the type of the reply to a request of a kind, which is no refusal."""
    want = "welcome" if kind == "hello" else f"{kind}.ok"
    need(message.get("t") == want, f"the reply to {kind} is of type {message.get('t')!r}, want {want!r}")


def welcomed(message: Message) -> None:
    """Checks the fields of a welcome."""
    version, caps, limits = message.get("ver"), message.get("caps"), message.get("limits")
    need(
        isinstance(version, list) and len(version) == 2 and all(map(integer, version)) and version[0] == 1,
        f"welcome has the version {version!r}, want [1, minor]",
    )
    need(isinstance(caps, list) and all(isinstance(cap, str) for cap in caps), f"welcome has the caps {caps!r}")
    need(isinstance(limits, dict) and all(map(integer, limits.values())), f"welcome has the limits {limits!r}")
    for key in ("shm", "last"):
        need(integer(message.get(key, 0)), f"welcome has {key} {message.get(key)!r}")


def made(message: Message, n: int, autoreset: str) -> None:
    """Checks the fields of a make.ok for n environments in a mode."""
    for key, least in (("eid", 1), ("n", 1), ("max_episode_steps", 0), ("mask", 0)):
        need(integer(message.get(key), least), f"make.ok has {key} {message.get(key)!r}")
    need(message["n"] == n, f"make.ok has {message['n']} environments, want {n}")
    need(isinstance(message.get("env"), str), f"make.ok has env {message.get('env')!r}")
    need(message.get("autoreset") == autoreset, f"make.ok has autoreset {message.get('autoreset')!r}, want {autoreset}")
    for key in ("obs_space", "act_space"):
        _described(message.get(key), key, 0)
    mask = mask_size(message["act_space"])
    need(message["mask"] == mask, f"make.ok has masks of {message['mask']} for a space of {mask}")
    spec = message.get("spec")
    need(isinstance(spec, dict), f"make.ok has the spec {spec!r}")
    for key in ("render_modes", "info"):
        need(isinstance(spec.get(key), list), f"the spec has {key} {spec.get(key)!r}")
    for column in spec["info"]:
        need(
            isinstance(column, dict) and isinstance(column.get("name"), str) and column.get("dtype") in _COLUMNS,
            f"the spec has the info column {column!r}",
        )


def _described(space: Any, what: str, depth: int) -> None:
    """Checks a description of section 5 of the protocol."""
    need(isinstance(space, dict) and depth < _DEPTH, f"{what} is {space!r}")
    kind = space.get("kind")
    if kind == "dict":
        keys, parts = space.get("keys"), space.get("parts")
        need(
            isinstance(keys, list) and isinstance(parts, list) and len(keys) == len(parts) == len(set(map(str, keys))),
            f"{what} has the keys {keys!r}",
        )
        for key, part in zip(keys, parts, strict=True):
            need(isinstance(key, str), f"{what} has the key {key!r}")
            _described(part, f"{what}[{key!r}]", depth + 1)
        return
    need(kind in _KINDS, f"{what} is of the unknown kind {kind!r}")
    need(space.get("dtype") == _KINDS[kind], f"{what}, a {kind}, has dtype {space.get('dtype')!r}")
    shape, sizes = space.get("shape", []), space.get("n", [])
    need(isinstance(shape, list) and all(map(integer, shape)), f"{what} has the shape {shape!r}")
    if kind == "box":
        for key in ("low", "high"):
            bounds = space.get(key)
            need(
                isinstance(bounds, list) and all(type(x) in (int, float) and not math.isnan(x) for x in bounds),
                f"{what} has {key} {bounds!r}",
            )
            need(len(bounds) in (1, math.prod(shape)), f"{what} of shape {shape} has {len(bounds)} numbers as {key}")
        return
    need(isinstance(sizes, list) and sizes != [] and all(integer(x, 1) for x in sizes), f"{what} has n {sizes!r}")
    want = {"discrete": [], "multi_discrete": [len(sizes)], "multi_binary": sizes}[kind]
    need((kind == "multi_discrete" or len(sizes) == 1) and shape == want, f"{what} has n {sizes} and shape {shape}")


def mask_size(space: Message) -> int:
    """Returns the length of a row of the action mask of a space; 0 if it has none."""
    kind, sizes = space["kind"], space.get("n", [])
    return {"discrete": 1, "multi_discrete": 1, "multi_binary": 2}.get(kind, 0) * sum(sizes)


def rendered(frame: Any, mode: str) -> None:
    """Checks the frame of a render.ok."""
    if mode == "ansi":
        need(isinstance(frame, str), f"a rendered frame is {_named(frame)}, want text")
        return
    right = isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3
    need(right, "a rendered frame is no array of shape (height, width, 3) and dtype uint8")


class Batches:
    """Checks the batches of a vector.

    In the messages, arrays may be the `Field`s of a `Layout`, which have shape and dtype only.
    """

    def __init__(self, made: Message) -> None:
        """Keeps what a make.ok, which must be right, says of them."""
        self._n: int = made["n"]
        self._obs, self._act, self._mask = made["obs_space"], made["act_space"], made["mask"]
        self._columns = {column["name"]: column["dtype"] for column in made["spec"]["info"]}
        self._same_step = made["autoreset"] == "SAME_STEP"

    def check(self, message: Message, kind: str) -> None:
        """Checks the reply to a request of a kind.

        Raises:
            ProtocolError: it is not what the protocol demands.
        """
        replied(message, kind)
        if kind == "policy":
            self._values(message, "a", self._act, self._n)
            self._array(message, "none", "bool", (self._n,), False)
        elif kind == "snapshot":
            need(integer(message.get("snap")), f"snapshot.ok has snap {message.get('snap')!r}")
        elif kind == "reset" or kind in _STEPPED:
            self._batch(message, kind)

    def _batch(self, message: Message, kind: str) -> None:
        n = self._rows(message, "recv.ok", 0) if kind == "recv" else self._n
        self._values(message, "obs", self._obs, n)
        self._array(message, "mask", "int8", (n, self._mask), False)
        self._info(message, n, "")
        self._failed(message.get("env_error"))
        if kind == "reset":
            return
        self._array(message, "r", "float64", (n,))
        for key in ("te", "tr", "inv"):
            self._array(message, key, "bool", (n,), False)
        final, ended = message.get("fin"), message.get("ep")
        if kind in ("step", "recv"):
            over = message.get("te") is not None or message.get("tr") is not None
            need((ended is not None) == over, "a reply has only one of ep and the flags of episodes that ended")
            right = not self._same_step or (final is not None) == over
            need(right, "a reply in SAME_STEP has only one of fin and the flags of episodes that ended")
        if final is not None:
            need(self._same_step, "a reply has fin in a mode other than SAME_STEP")
            d = self._rows(final, "fin")
            self._values(final, "obs", self._obs, d, "fin.")
            self._array(final, "mask", "int8", (d, self._mask), False, "fin.")
            self._info(final, d, "fin.")
        if ended is not None:
            self._sums(ended, self._rows(ended, "ep"), "ep.")
        if kind in ("restore", "fork", "load", "rollout"):
            self._sums(message.get("run"), n, "run.")
        if kind == "rollout":
            self._rollout(message)
        rows = numbers_of(message)
        if all(isinstance(idx, np.ndarray) for _, idx in rows):
            check_rows(rows, self._n)

    def _rollout(self, message: Message) -> None:
        steps, ended, taken = message.get("steps"), message.get("eps"), message.get("traj")
        need(integer(steps, 1), f"rollout.ok has steps {steps!r}")
        if ended is not None:
            e = self._rows(ended, "eps")
            idx = ended["idx"]
            right = not isinstance(idx, np.ndarray) or (idx.min() >= 0 and idx.max() < self._n)
            need(right, f"eps is about environments beyond the {self._n}")
            self._sums(ended, e, "eps.")
            self._array(ended, "at", "int32", (e,), True, "eps.")
            self._info(ended, e, "eps.")
            if taken is not None:
                self._values(ended, "obs", self._obs, e, "eps.")
        if taken is None:
            return
        need(isinstance(taken, dict), "traj is no map")
        rows = int(steps or 0) * self._n
        self._values(taken, "obs", self._obs, rows, "traj.")
        self._values(taken, "a", self._act, rows, "traj.")
        self._array(taken, "r", "float64", (rows,), True, "traj.")
        self._array(taken, "mask", "int8", (rows, self._mask), False, "traj.")
        for key in ("te", "tr", "inv", "none"):
            self._array(taken, key, "bool", (rows,), False, "traj.")

    @staticmethod
    def _rows(part: Any, what: str, least: int = 1) -> int:
        """Returns how many rows a part of a reply has, at least least: its field idx says for which environments."""
        need(isinstance(part, Mapping), f"{what} is no map")
        shape = getattr(part.get("idx"), "shape", None)
        need(shape is not None and len(shape) == 1, f"{what} has no array idx of one dimension")
        need(shape[0] >= least, f"{what} has no rows")  # type: ignore[index]
        Batches._array(part, "idx", "int32", shape, True, f"{what}.")  # type: ignore[arg-type]
        return int(shape[0])  # type: ignore[index]

    @staticmethod
    def _array(
        part: Message, key: str, dtype: str, shape: Sequence[int], required: bool = True, where: str = ""
    ) -> None:
        value = part.get(key)
        if value is None and not required:
            return
        need(getattr(value, "shape", None) is not None, f"{where}{key} is {_named(value)}, want an array")
        right = tuple(value.shape) == tuple(shape) and value.dtype == np.dtype(dtype).newbyteorder("<")
        got = f"{where}{key} has the shape {tuple(value.shape)} and dtype {value.dtype}"
        need(right, f"{got}, want {tuple(shape)} and {dtype}")

    def _values(self, part: Message, key: str, space: Message, n: int, where: str = "") -> None:
        """Checks n values of a space."""
        if space["kind"] != "dict":
            shape = [] if space["kind"] == "discrete" else space["shape"]
            self._array(part, key, space["dtype"], (n, *shape), True, where)
            return
        value = part.get(key)
        need(isinstance(value, Mapping), f"{where}{key} is {_named(value)}, want a map")
        for name, one in zip(space["keys"], space["parts"], strict=True):
            self._values(value, name, one, n, f"{where}{key}.")  # type: ignore[arg-type]

    def _info(self, part: Message, n: int, where: str) -> None:
        info = part.get("info")
        if info is None and not self._columns:
            return
        need(isinstance(info, Mapping), f"{where}info is {_named(info)}, want a map")
        for name, dtype in self._columns.items():
            self._array(info, name, dtype, (n,), True, f"{where}info.")  # type: ignore[arg-type]
        for name, column in info.items():  # type: ignore[union-attr]
            dtype = self._columns.get(name) or ("bool" if name[:1] == "_" else getattr(column, "dtype", "float64"))
            self._array(info, name, dtype, (n,), True, f"{where}info.")  # type: ignore[arg-type]

    def _sums(self, part: Any, n: int, where: str) -> None:
        need(isinstance(part, Mapping), f"{where[:-1]} is {_named(part)}, want a map")
        self._array(part, "r", "float64", (n,), True, where)
        self._array(part, "l", "int64", (n,), True, where)

    def _failed(self, failed: Any) -> None:
        if failed is None:
            return
        d = self._rows(failed, "env_error")
        texts = failed.get("msg")
        right = isinstance(texts, list) and len(texts) == d and all(isinstance(text, str) for text in texts)
        need(right, f"env_error has idx for {d} rows and msg {_named(texts)}")


def check_rows(numbers: Sequence[tuple[str, np.ndarray]], n: int) -> None:
    """Checks the numbers of environments in a reply.

    Args:
        numbers: field and value of each array `idx`. The reply's own comes first, and the others then count its rows.
        n: environments of the vector.

    Raises:
        ProtocolError: one is out of range, or they do not ascend.
    """
    for key, rows in numbers:
        if rows.size and not (rows[0] >= 0 and rows[-1] < n and (rows.size == 1 or (rows[:-1] < rows[1:]).all())):
            need(False, f"{key} is about the environments {rows[:8].tolist()}, want ascending numbers below {n}")
        if key == "idx":
            n = len(rows)


def numbers_of(message: Message) -> list[tuple[str, Any]]:
    """Returns field and value of each array `idx` of a batch, for `check_rows`."""
    out = [("idx", message["idx"])] if "idx" in message else []
    return out + [(key, message[key]["idx"]) for key in ("fin", "ep", "env_error") if key in message]


def _named(value: Any) -> str:
    return "absent" if value is None else type(value).__name__
