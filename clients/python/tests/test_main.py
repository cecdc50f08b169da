"""`python -m kubernasium`, and the message to users of an old Gymnasium."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kubernasium
from kubernasium.__main__ import program
from kubernasium.floor import GYMNASIUM
from kubernasium.launcher import Server
from kubernasium.protocol import connect
from kubernasium.registration import catalog

PACKAGE = Path(kubernasium.__file__).parent.parent


def run(*args: str, status: int = 0, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kubernasium", *args],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def test_list() -> None:
    lines = run("list").splitlines()
    assert [line.split()[0] for line in lines] == [spec["id"] for spec in catalog()]
    assert run("list", "CartPole").count("\n") == 1
    assert [spec["id"] for spec in json.loads(run("list", "--json", "CartPole"))] == ["classic/CartPole-v1"]


def test_describe() -> None:
    text = run("describe", "k8s/GangWindow-v0", "windows=5", "horizon=2")
    for want in ("Box((29,), float32)", "Discrete(6)", "penalty_model = 'constant'", "static_3", "steps_since_plan"):
        assert want in text
    text = run("describe", "k8s/PodBalance-v0")
    assert "nodes: Box((10, 16), float32)" in text
    assert "node_0.requested_cpu" in text
    assert "and so on to node_9.rank_memory" in text


@pytest.mark.parametrize(
    ("args", "want"),
    [
        (["describe", "k8s/GangWindows-v0"], "GangWindow-v0"),  # suggests
        (["describe", "k8s/GangWindow-v0", "window=5"], "windows"),
        (["describe", "k8s/GangWindow-v0", "windows"], "NAME=VALUE"),
    ],
)
def test_a_refusal_is_one_line(args: list[str], want: str) -> None:
    text = run(*args, status=1)
    assert want in text
    assert text.startswith("kubernasium: ")
    assert text.count("\n") == 1


@pytest.mark.parametrize("subcommand", [["serve"], []])
def test_serve(tmp_path: Path, subcommand: list[str]) -> None:
    socket = tmp_path / "socket"
    command = [sys.executable, "-m", "kubernasium", *subcommand, "--listen", "", "--unix", str(socket)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()  # the server says where it listens
            with connect(f"unix:{socket}", timeout=20) as connection:
                assert len(connection.request("envs")["envs"]) == len(catalog())
        finally:
            process.terminate()
    assert process.returncode == 0  # the server drains


def test_serve_uses_the_binary_that_is_named(server: Server) -> None:
    assert "KUBERNASIUM_SERVER" in run("serve", status=1, KUBERNASIUM_SERVER="/no/such/file")


def test_program_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("kubernasium.__main__.bundled_program", lambda: None)
    assert program() == 1
    assert "wheel for your platform" in capsys.readouterr().err


def test_an_old_gymnasium_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "gymnasium").mkdir()
    (tmp_path / "gymnasium" / "__init__.py").write_text("")
    info = tmp_path / "gymnasium-0.29.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gymnasium\nVersion: 0.29.1\n")
    done = subprocess.run(
        [sys.executable, "-c", "import kubernasium"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{PACKAGE}"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == (
        "ImportError: kubernasium needs gymnasium 1.1 or newer and found 0.29.1: pip install --upgrade 'gymnasium>=1.1'"
    )


def test_the_floor_is_declared(root: Path) -> None:
    floors = re.findall(r'"gymnasium>=([\d.]+)"', (root / "pyproject.toml").read_text())
    assert floors == [".".join(map(str, GYMNASIUM))] * 2  # of the extras gymnasium and sb3
