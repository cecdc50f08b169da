"""Converts what users pass to a vector to the form of the protocol: options, batches of actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def made_with(env_error: bool, obs_keys: Sequence[str] | None) -> dict[str, Any]:
    """Returns the fields of `make` that ask for isolated failures and for parts of observations."""
    if isinstance(obs_keys, str):
        raise TypeError(f"obs_keys is the string {obs_keys!r}, want a sequence of keys, such as [{obs_keys!r}]")
    fields: dict[str, Any] = {"env_error": True} if env_error else {}
    return fields if obs_keys is None else fields | {"obs_keys": list(obs_keys)}


def plain(value: Any) -> Any:
    """Returns options with lists for arrays, which servers take nowhere else than in actions."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def working_directory() -> str | None:
    """Returns the working directory, or None if it was removed."""
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return None


def contiguous(value: Any) -> Any:
    """Returns a batch of a dict space with arrays for leaves."""
    if isinstance(value, Mapping):
        return {key: contiguous(part) for key, part in value.items()}
    return np.asarray(value)


def copied(value: Any) -> Any:
    """Returns a value of a reply with arrays of its own."""
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def batch_of_one(action: Any) -> Any:
    """Returns an action as a batch of one."""
    if isinstance(action, Mapping):
        return {key: batch_of_one(part) for key, part in action.items()}
    return np.asarray(action)[np.newaxis]
