"""Gymnasium spaces from their descriptions in the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces


def from_description(description: Mapping[str, Any]) -> spaces.Space[Any]:
    """Returns the Gymnasium space of a description.

    Args:
        description: a space of section 5 of the protocol.

    Raises:
        ValueError: the kind is unknown.
    """
    kind = description["kind"]
    if kind == "box":
        shape = tuple(description["shape"])
        dtype = np.dtype(description["dtype"])
        low, high = (_bound(description[key], shape, dtype) for key in ("low", "high"))
        return spaces.Box(low, high, shape, dtype.type)
    if kind == "discrete":
        return spaces.Discrete(description["n"][0])
    if kind == "multi_discrete":
        return spaces.MultiDiscrete(description["n"])
    if kind == "multi_binary":
        return spaces.MultiBinary(description["n"][0])
    if kind == "dict":
        parts = zip(description["keys"], description["parts"], strict=True)
        # Pairs rather than a dict, whose keys Gymnasium would sort.
        return spaces.Dict([(key, from_description(part)) for key, part in parts])
    raise ValueError(f"space of unknown kind {kind!r}; a newer kubernasium may know it")


def _bound(values: list[Any], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns a bound for each element; JSON's "inf" and "-inf" are read too."""
    array = np.array([float(value) for value in values], dtype)
    return np.full(shape, array[0], dtype) if array.size == 1 else array.reshape(shape)


def mask_for_sample(space: spaces.Space[Any], mask: np.ndarray) -> Any:
    """Returns a row of an action mask in the form that `space.sample(mask)` takes.

    Args:
        space: the action space of one environment.
        mask: int8 of shape (A,), as in `info["action_mask"]`.
    """
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(np.split(mask, np.cumsum(space.nvec)[:-1]))
    if isinstance(space, spaces.MultiBinary):
        pairs = mask.reshape(-1, 2).astype(bool)
        # Gymnasium marks an element by its value, or by 2 where both are permitted.
        return np.where(pairs.all(axis=1), 2, pairs[:, 1]).astype(np.int8).reshape(space.shape)
    return mask
