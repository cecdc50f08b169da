"""The control plane of Kubernasium as a program: etcd, Kubernetes' servers and KWOK.

The package kubernasium finds it here: `kubernasium kwok up` and the environments on an API server start it.
"""

from __future__ import annotations

from pathlib import Path


def program() -> Path:
    """Returns the path of the control plane's program."""
    return Path(__file__).parent / "bin" / "controlplane"
