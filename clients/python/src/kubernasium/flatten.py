"""Observations as flat rows: of batches, and straight from the frames of a vector's replies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from kubernasium.protocol.codec import BFLOAT16
from kubernasium.protocol.layout import Field, Layout
from kubernasium.protocol.transport import Buffer


def flatten_rows(space: spaces.Space[Any], batch: Any, n: int) -> np.ndarray:
    """Returns `gymnasium.spaces.flatten` of each of the n rows of a batch, as an array of n rows.

    Args:
        space: of a row.
        batch: n observations, as of a `gymnasium.vector.VectorEnv`.
        n: how many.
    """
    if isinstance(space, spaces.Dict):
        return np.concatenate([flatten_rows(part, batch[key], n) for key, part in space.items()], axis=1)
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        return np.asarray(batch).reshape(n, -1)
    return np.stack([spaces.flatten(space, row) for row in iterate(batch_space(space, n), batch)])


class FlatFrames:
    """Reads replies of one layout: each part of an observation is copied once, from the frame into its columns.

    All that it returns is the caller's own; the frame may go.
    """

    def __init__(self, parts: list[tuple[Any, ...]], layout: Layout, n: int, dtype: np.dtype) -> None:
        message = layout.message
        self._parts = parts
        self._shape, self._dtype = (n, parts[-1][-1].stop), dtype
        self._others = [_place(message.get(key)) for key in ("r", "te", "tr", "mask")]

    @classmethod
    def of(cls, layout: Layout, space: spaces.Space[Any], n: int, dtype: np.dtype) -> FlatFrames | None:
        """Returns the reader of a layout, or None if observations are not arrays of dtype throughout.

        Args:
            layout: of replies to `step`.
            space: of one environment's observation.
            n: how many environments.
            dtype: of the flat rows.
        """
        parts, at = [], 0
        for part, field in _leaves(space, layout.message["obs"]):
            if not isinstance(part, (spaces.Box, spaces.MultiBinary)) or not isinstance(field, Field):
                return None
            if field.code == BFLOAT16 or field.dtype != dtype:
                return None
            width = int(np.prod(part.shape))
            parts.append(((n, width), dtype, field.offset, slice(at, at + width)))
            at += width
        return cls(parts, layout, n, dtype) if parts else None

    def observations(self, buf: Buffer) -> np.ndarray:
        """Returns the observations in a frame, of shape (n, D)."""
        out = np.empty(self._shape, self._dtype)
        for shape, dtype, offset, columns in self._parts:
            out[:, columns] = np.ndarray(shape, dtype, buf, offset)
        return out

    def others(self, buf: Buffer) -> list[np.ndarray | None]:
        """Returns rewards, terminations, truncations and action masks; None for those that the frame lacks."""
        return [place and np.ndarray(place[0], place[1], buf, place[2]).copy() for place in self._others]


def _place(field: Any) -> tuple[Any, ...] | None:
    return (field.shape, field.dtype, field.offset) if isinstance(field, Field) else None


def _leaves(space: spaces.Space[Any], fields: Any) -> Iterator[tuple[spaces.Space[Any], Any]]:
    """Yields the parts of a space that are no Dicts, in the order of their columns, with what a layout has for them."""
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            yield from _leaves(part, fields[key])
    else:
        yield space, fields
