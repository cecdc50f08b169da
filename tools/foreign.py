"""Wheels of other platforms in virtual environments of this machine, which run their programs by an emulator."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

from test_dist import ROOT, same, transcript


def install(folder: Path, wheel: Path, platform: str) -> Path:
    """Makes a virtual environment in folder with the wheel of a platform, and returns its site-packages."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "gymnasium==1.4.0", "msgpack==1.2.4", "numpy"], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # pip installs a wheel of another platform only into a given folder.
    options = ["--platform", platform, "--only-binary=:all:", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, *options, str(wheel)], check=True)
    return site


def run(folder: Path, command: str) -> str:
    """Returns the output of a shell command in a virtual environment. The command must succeed."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "TMPDIR": "/tmp"},
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_transcript(folder: Path) -> None:
    """Runs the first step and the evaluation of docs/install.md, and compares the output to the last digit."""
    steps = [(command, output) for command, output in transcript() if "GangWindow" in command]
    assert [command.split()[0] for command, _ in steps] == ["python", "kubernasium"]
    for command, output in steps:
        assert same(run(folder, command)) == same(output), command


def released(emulator: str, **env: str) -> str:
    """Returns the output of TestReleased in an emulator: spaces and sums of every environment."""
    done = subprocess.run(
        [os.environ.get("GO", "go"), "test", "-count=1", "-v", "-trimpath", "-tags", "nogorgonia", "-exec", emulator,
         "-run", "^TestReleased$", "./registry"],
        cwd=ROOT, env={**os.environ, "CGO_ENABLED": "0", **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--- PASS: TestReleased" in done.stdout, done.stdout
    return done.stdout
