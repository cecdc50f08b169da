"""The result of `VectorEnv.rollout`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rollout:
    """The result of many steps by a baseline.

    Attributes:
        steps: how many were taken.
        cut: whether a limit of the server, with autoreset disabled an episode's end, or a
            state in which the baseline cannot act made them fewer than asked for.
        rows, ends: int32 of shape (e,): the environments of the episodes that ended, and the
            steps in which they did, from 1, ascending.
        returns, lengths: float64 and int64 of shape (e,): of these episodes.
        infos: their last diagnostics, arrays of shape (e,).
        last: what `step` returns of the last step.
        transitions: None unless asked for. Arrays of shape (steps, n, ...): `obs` and
            `action_mask` before the action, `actions`, `rewards`, `terminations`,
            `truncations`, `invalid` (the action was masked out), `resets` (the step began an
            episode, whatever the action). `final_obs` holds the last observation of each
            episode that ended, e rows, or None.
    """

    steps: int
    cut: bool
    rows: np.ndarray
    ends: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray
    infos: dict[str, np.ndarray]
    last: tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]
    transitions: dict[str, Any] | None
