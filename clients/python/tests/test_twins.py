"""Twins on a real API server, that of the control plane whose binary KUBERNASIUM_CONTROLPLANE names.

Without it, as `make test-kwok` sets it, conftest.py leaves this file out.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from kubernasium.registration import catalog

CONTROLPLANE = os.environ["KUBERNASIUM_CONTROLPLANE"]
STAGES = Path(__file__).resolve().parents[3] / "kwok" / "stages"
TWINS = [spec["id"] for spec in catalog() if "Kwok" in spec["id"]]


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[str]:
    """The kubeconfig of a control plane that ends with the module, or with this process."""
    command = [CONTROLPLANE, f"--stages={STAGES}", "--exit-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield json.loads(process.stdout.readline())["kubeconfig"]
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("env_id", TWINS)
@pytest.mark.filterwarnings("error")
def test_check_env(env_id: str, kubeconfig: str) -> None:
    """No warnings either, but for the advice to take the later version of an id."""
    name, _, version = env_id.rpartition("-v")
    if f"{name}-v{int(version) + 1}" in TWINS:
        warnings.filterwarnings("ignore", ".*is out of date")
    shorter = {"containers": 12} if "LRA" in env_id else {}
    with gymnasium.make(env_id, kubeconfig=kubeconfig, **shorter) as env:
        check_env(env.unwrapped)


def test_notebook(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook's episodes are the same, and worth the same, in the simulator and on the API server."""
    spec = importlib.util.spec_from_file_location("notebooks", Path(__file__).with_name("test_notebooks.py"))
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    monkeypatch.setenv("KUBERNASIUM_KUBECONFIG", kubeconfig)
    text = notebooks.run(notebooks.ON_API_SERVER)
    simulated, real = (re.search(rf"{where}: +return (-[\d.]+)", text)[1] for where in ("simulator", "API server"))
    assert real == simulated
    assert int(re.search(r"(\d+) pods bound", text)[1]) > 0
