"""Fixtures: one server for all tests, which listens on a unix socket and on loopback."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import kubernasium  # noqa: F401  registers the environments
from kubernasium.launcher import Server
from kubernasium.protocol import Connection, connect

# Twins want a control plane; make test-kwok has one.
collect_ignore = [] if "KUBERNASIUM_CONTROLPLANE" in os.environ else ["test_twins.py"]
# Recipes want their libraries; make test-recipes installs them.
if importlib.util.find_spec("ray") is None:
    collect_ignore += ["test_recipes.py", "test_rllib.py", "test_masks.py", "test_minari.py", "test_optuna.py"]

TOKEN_FREE = ["--listen", "127.0.0.1:0"]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of the bundled binary, or of the one that KUBERNASIUM_SERVER names."""
    with Server(args=TOKEN_FREE) as started:
        yield started


@pytest.fixture(scope="session")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with test/Trouble-v0, which fails and waits on demand; see testdata/trouble."""
    binary = tmp_path_factory.mktemp("bin") / "trouble"
    package = Path(__file__).parent / "testdata" / "trouble"
    # With the flags of hatch_build.py, whose compiled packages it shares.
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(binary), "."]
    subprocess.run(command, cwd=package, env=os.environ | {"CGO_ENABLED": "0"}, check=True)
    with Server(binary, args=TOKEN_FREE) as started:
        yield started


@pytest.fixture(params=["unix", "ws"])
def trouble_url(request: pytest.FixtureRequest, trouble: Server) -> str:
    """Where to connect to it, by each transport."""
    return trouble.url if request.param == "unix" else trouble.ws_url


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Python's handler of SIGINT, which a shell's background jobs lack."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)


@pytest.fixture(params=["unix", "ws"])
def url(request: pytest.FixtureRequest, server: Server) -> str:
    """Where to connect, by each transport."""
    return server.url if request.param == "unix" else server.ws_url


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with connect(url, timeout=20) as connection:
        yield connection


@pytest.fixture
def root() -> Path:
    """The folder of the Python client."""
    return Path(__file__).resolve().parent.parent
