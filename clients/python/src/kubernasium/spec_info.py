"""The description of an environment: options, diagnostics, baselines, names of its observations' elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kubernasium.protocol.vector import Vector


@dataclass(frozen=True)
class SpecInfo:
    """The description of an environment with its options.

    Attributes:
        id: its full id.
        doc: one sentence.
        max_episode_steps: the time limit in force at the server; 0 is none.
        options: what `make` takes: maps of `name`, `type`, `default` and `doc`.
        held_out: options that select instances no training sees; empty if other seeds suffice.
        info: columns of `info`: maps of `name`, `dtype` and `doc`.
        metrics: columns of `info` that hold an episode's outcome at its last step: maps of
            `column`, `unit` and `lower` (lower is better).
        baselines: policies of the environment: maps of `name`, `doc` and `oracle` (clairvoyant: uses
            knowledge that no agent has).
        feature_names: a name for each element of an observation, as an array of str of the
            observation's shape; of a Dict, a dict of such arrays. None if the server names none.
    """

    id: str
    doc: str
    max_episode_steps: int
    options: list[dict[str, Any]]
    held_out: dict[str, Any]
    info: list[dict[str, Any]]
    metrics: list[dict[str, Any]]
    baselines: list[dict[str, Any]]
    feature_names: np.ndarray | dict[str, np.ndarray] | None

    @property
    def flat_feature_names(self) -> list[str]:
        """The names in the order of `gymnasium.spaces.flatten`; a Dict's begin with its key and `/`."""
        if isinstance(self.feature_names, dict):
            return [f"{key}/{name}" for key, part in self.feature_names.items() for name in part.ravel().tolist()]
        return [] if self.feature_names is None else self.feature_names.ravel().tolist()


def spec_info(vector: Vector) -> SpecInfo:
    """Returns the server's description of vector."""
    spec = vector.spec
    return SpecInfo(
        id=spec["id"],
        doc=spec["doc"],
        max_episode_steps=vector.max_episode_steps,
        options=spec["options"],
        held_out=spec["held_out"],
        info=spec["info"],
        metrics=spec["metrics"],
        baselines=spec["baselines"],
        feature_names=_names(vector.obs_space, vector.features),
    )


def _names(space: Mapping[str, Any], features: list[dict[str, Any]]) -> Any:
    if not features:
        return None
    if space["kind"] == "dict":
        pairs = zip(space["keys"], space["parts"], features, strict=True)
        return {key: _part(part, feature) for key, part, feature in pairs}
    return _part(space, features[0])


def _part(space: Mapping[str, Any], feature: Mapping[str, Any]) -> np.ndarray:
    """Returns the names of a Box's elements: `name`, or `row_i.name` where there are rows."""
    names, row = feature["names"], feature["row"]
    if row:
        rows = int(np.prod(space["shape"])) // len(names)
        names = [f"{row}_{i}.{name}" for i in range(rows) for name in names]
    return np.array(names).reshape(space["shape"])
