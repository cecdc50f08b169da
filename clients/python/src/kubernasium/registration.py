"""Registration of the environments with Gymnasium.

The package contains the list of the bundled server's environments, so importing it starts no server. `register` adds
those of another server.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import gymnasium

from kubernasium.launcher import open_connection

CATALOG = "catalog.json"
CATALOG_KEYS = ("id", "max_episode_steps", "nondeterministic", "reward_threshold")  # what registration needs


def catalog() -> list[dict[str, Any]]:
    """Returns the list of the bundled server's environments, by ascending id."""
    text = resources.files("kubernasium").joinpath(CATALOG).read_text(encoding="utf-8")
    specs: list[dict[str, Any]] = json.loads(text)
    return specs


def register(url: str | None = None) -> list[str]:
    """Registers the environments of a server with Gymnasium, except those that are registered already.

    Args:
        url: where the server is; by default KUBERNASIUM_URL or the bundled server. The
            environments connect to that server also when they are made later.

    Returns:
        The ids that were registered now.
    """
    with open_connection(url) as connection:
        specs = connection.request("envs")["envs"]
    return register_specs(specs, url)


def register_specs(specs: list[dict[str, Any]], url: str | None = None) -> list[str]:
    """Registers environments by their descriptions and returns the ids that were new."""
    added = []
    for spec in specs:
        env_id = spec["id"]
        if env_id in gymnasium.registry:
            continue
        limit = spec["max_episode_steps"] or None
        gymnasium.register(
            env_id,
            entry_point="kubernasium.env:Env" if limit is None else "kubernasium.env:UnlimitedEnv",
            vector_entry_point="kubernasium.vector:VectorEnv",
            reward_threshold=spec["reward_threshold"],
            nondeterministic=spec["nondeterministic"],
            max_episode_steps=limit,
            kwargs={"env_id": env_id} if url is None else {"env_id": env_id, "url": url},
        )
        added.append(env_id)
    return added
