"""Kubernetes scheduling problems as Gymnasium environments.

Importing this package registers its environments with Gymnasium:

    import gymnasium
    import kubernasium

    env = gymnasium.make("k8s/GangWindow-v0")
    envs = gymnasium.make_vec("k8s/GangWindow-v0", num_envs=64)

The environments run in a server written in Go. Without the environment variable
KUBERNASIUM_URL the package starts its bundled server and stops it at exit.

`kubernasium.sb3` has a VecEnv for Stable-Baselines3, and `kubernasium.protocol`, which needs
neither Gymnasium nor the bundled server, speaks the wire protocol.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from kubernasium import errors, protocol
from kubernasium.errors import KubernasiumError
from kubernasium.launcher import Server

if TYPE_CHECKING:
    from kubernasium.env import Env
    from kubernasium.policy import Policy
    from kubernasium.registration import register
    from kubernasium.vector import VectorEnv, make_vec

__version__ = "0.1.0"
__all__ = [
    "Env",
    "KubernasiumError",
    "Policy",
    "Server",
    "VectorEnv",
    "errors",
    "make_vec",
    "protocol",
    "register",
]

_LAZY = {
    "Env": "kubernasium.env",
    "Policy": "kubernasium.policy",
    "VectorEnv": "kubernasium.vector",
    "make_vec": "kubernasium.vector",
    "register": "kubernasium.registration",
}


def __getattr__(name: str) -> Any:
    """Imports names at their first use: most need Gymnasium."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if importlib.util.find_spec("gymnasium") is not None:
    from kubernasium.floor import check_gymnasium

    check_gymnasium()
    del check_gymnasium

    from kubernasium.registration import catalog, register_specs

    register_specs(catalog())
    del catalog, register_specs
