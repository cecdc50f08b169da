"""The list of environments in the package is the server's."""

from __future__ import annotations

import gymnasium

from kubernasium.launcher import Server
from kubernasium.protocol import connect
from kubernasium.registration import CATALOG_KEYS, catalog


def test_catalog_equals_the_servers(server: Server) -> None:
    with connect(server.url) as connection:
        live = connection.request("envs")["envs"]
    message = "catalog.json is out of date: run clients/python/tools/update_catalog.py"
    assert [{key: spec[key] for key in CATALOG_KEYS} for spec in live] == catalog(), message


def test_specs() -> None:
    for spec in catalog():
        registered = gymnasium.spec(spec["id"])
        assert registered.max_episode_steps == (spec["max_episode_steps"] or None)
        assert registered.reward_threshold == spec["reward_threshold"]
        assert registered.nondeterministic == spec["nondeterministic"]
