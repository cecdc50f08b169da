"""Wheels of other platforms in virtual environments of this machine, which run their programs by an emulator."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

from test_dist import ROOT


def install(folder: Path, wheel: Path, platform: str) -> Path:
    """Makes a virtual environment in folder with the wheel of a platform, and returns its site-packages."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "gymnasium==1.4.0", "msgpack==1.2.4", "numpy"], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # pip takes the wheel of another platform only where a folder is named.
    options = ["--platform", platform, "--only-binary=:all:", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, *options, str(wheel)], check=True)
    return site


def run(folder: Path, command: str) -> str:
    """Returns what a shell command prints in a virtual environment. The command must succeed."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "TMPDIR": "/tmp"},
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def released(emulator: str, **env: str) -> str:
    """Returns what TestReleased prints where an emulator runs it: spaces and sums of every environment."""
    done = subprocess.run(
        [os.environ.get("GO", "go"), "test", "-count=1", "-v", "-trimpath", "-tags", "nogorgonia", "-exec", emulator,
         "-run", "^TestReleased$", "./registry"],
        cwd=ROOT, env={**os.environ, "CGO_ENABLED": "0", **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--- PASS: TestReleased" in done.stdout, done.stdout
    return done.stdout
