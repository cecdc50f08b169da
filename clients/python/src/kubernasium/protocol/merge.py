"""Combines replies of parts of a vector into one reply, with the rows of the parts one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Reply = dict[str, Any]


def merged(replies: Sequence[Reply], first: Sequence[int]) -> Reply:
    """Returns the fields of section 7 of the protocol, and of `restore`.

    Args:
        replies: one for each part.
        first: the row of each part's first environment; then the number of all environments.
    """
    sizes = np.diff(first)
    out: Reply = {"obs": joined([reply["obs"] for reply in replies])}
    if all("r" in reply for reply in replies):
        out["r"] = np.concatenate([reply["r"] for reply in replies])
    for key in ("te", "tr", "inv"):
        _column(out, key, replies, sizes, False)
    _column(out, "mask", replies, sizes, 1)
    if "info" in replies[0]:
        out["info"] = _infos([reply["info"] for reply in replies], sizes)
    if any("fin" in reply for reply in replies):
        out["fin"] = _ended("fin", replies, first)
    if any("ep" in reply for reply in replies):
        out["ep"] = _ended("ep", replies, first)
    if any("env_error" in reply for reply in replies):
        failed = [(reply["env_error"], at) for reply, at in zip(replies, first, strict=False) if "env_error" in reply]
        rows = np.concatenate([part["idx"] + np.int32(at) for part, at in failed])
        out["env_error"] = {"idx": rows, "msg": [text for part, _ in failed for text in part["msg"]]}
    if all("run" in reply for reply in replies):
        out["run"] = joined([reply["run"] for reply in replies])
    return out


def joined(values: Sequence[Any]) -> Any:
    """Returns batches one after another."""
    if isinstance(values[0], Mapping):
        return {key: joined([value[key] for value in values]) for key in values[0]}
    return np.concatenate(values)


def split(value: Any, low: int, high: int) -> Any:
    """Returns rows low … high-1 of a batch."""
    if isinstance(value, Mapping):
        return {key: split(part, low, high) for key, part in value.items()}
    return value[low:high]


def blank(like: Any, n: int) -> Any:
    """Returns n rows of zeros in the form of another batch."""
    if isinstance(like, Mapping):
        return {key: blank(part, n) for key, part in like.items()}
    return np.zeros((n, *like.shape[1:]), like.dtype)


def _column(out: Reply, key: str, replies: Sequence[Reply], sizes: np.ndarray, default: Any) -> None:
    """Adds a column that is absent where all of it has the default."""
    present = [reply[key] for reply in replies if key in reply]
    if not present:
        return
    width, dtype = present[0].shape[1:], present[0].dtype
    parts = [
        reply[key] if key in reply else np.full((n, *width), default, dtype)
        for reply, n in zip(replies, sizes.tolist(), strict=True)
    ]
    out[key] = np.concatenate(parts)


def _infos(infos: Sequence[Reply], sizes: np.ndarray) -> Reply:
    """Returns columns of infos; a mask `_name` is absent where all rows have a value."""
    out: Reply = {}
    for key in infos[0] | {name: None for info in infos for name in info}:
        _column(out, key, infos, sizes, True)
    return out


def _ended(key: str, replies: Sequence[Reply], first: Sequence[int]) -> Reply:
    """Returns the maps of the episodes that ended."""
    parts = [(reply[key], at) for reply, at in zip(replies, first, strict=False) if key in reply]
    maps, sizes = [part for part, _ in parts], np.array([len(part["idx"]) for part, _ in parts])
    out: Reply = {"idx": np.concatenate([part["idx"] + np.int32(at) for part, at in parts])}
    for name in maps[0]:
        if name == "info":
            out[name] = _infos([part[name] for part in maps], sizes)
        elif name not in ("idx", "mask"):
            out[name] = joined([part[name] for part in maps])
    _column(out, "mask", maps, sizes, 1)
    return out
