"""Runs the program of Windows from its wheel under Wine: pytest tools/test_dist_windows.py --dist FOLDER.

FOLDER holds the wheel of Windows on x86-64. Python is that of this machine without unix sockets, as on Windows.
docs/install.md has the expected output, which was printed on Linux.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from foreign import check_transcript, install, released, run
from test_dist import ROOT

WINE = shutil.which("wine")
DLLTOOL = shutil.which("x86_64-w64-mingw32-dlltool")
LINKER = shutil.which("x86_64-w64-mingw32-ld")


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of programs of Windows."""
    assert WINE and DLLTOOL and LINKER, "install Debian's packages wine, wine64 and binutils-mingw-w64-x86-64"
    folder = tmp_path_factory.mktemp("wine")
    environment = {
        "WINEPREFIX": str(folder / "prefix"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "bcryptprimitives=n,b;winemenubuilder.exe=d",
    }
    subprocess.run([WINE, "wineboot", "--init"], env={**os.environ, **environment}, check=True, timeout=300)
    exports, library = folder / "exports.o", folder / "prefix/drive_c/windows/system32/bcryptprimitives.dll"
    definition = ROOT / "tools" / "bcryptprimitives.def"
    subprocess.run([DLLTOOL, "-m", "i386:x86-64", "-d", str(definition), "-e", str(exports)], check=True)
    subprocess.run([LINKER, "-shared", "--entry", "0", "-o", str(library), str(exports)], check=True)
    return environment


@pytest.fixture(scope="module")
def windows(dist: Path, wine: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of this machine with the wheel of Windows, whose program Wine runs."""
    folder = tmp_path_factory.mktemp("windows")
    (wheel,) = dist.glob("kubernasium-*win_amd64.whl")
    site = install(folder, wheel, "win_amd64")
    program = site / "kubernasium" / "bin" / "kubernasium.exe"
    script = program.with_name("kubernasium")
    variables = " ".join(f"'{name}={value}'" for name, value in wine.items())
    script.write_text(f'#!/bin/sh\nexec env {variables} {WINE} {program} "$@"\n')
    script.chmod(0o755)
    (folder / "bin" / "kubernasium").symlink_to(script)
    (site / "sitecustomize.py").write_text("import socket\n\ndel socket.AF_UNIX\n")
    return folder


def test_program_is_of_windows(windows: Path) -> None:
    assert re.search(r"^go: go1\.\S+ windows/amd64$", run(windows, "kubernasium --version"), re.MULTILINE)


def test_prints_what_linux_prints(windows: Path) -> None:
    """The first step, over loopback with a token, and an evaluation, to the last digit."""
    check_transcript(windows)


def test_trains_as_on_linux(windows: Path, tmp_path: Path) -> None:
    """A resumed training writes the same model, byte for byte, as an uninterrupted one on Linux."""
    train = "train --algo ppo --env classic/CartPole-v1 --seed 1 -n 4000 --save-freq 2000"
    run(windows, f"kubernasium {train}")
    (folder,) = windows.glob("logs/ppo/*")
    there = folder / "classic-CartPole-v1.safetensors"
    there.unlink()
    run(windows, f"kubernasium train --resume {folder.relative_to(windows)}/rl_model_2048_steps.safetensors")
    trainer = tmp_path / "trainer"
    go = os.environ.get("GO", "go")
    subprocess.run([go, "build", "-tags", "nogorgonia", "-o", str(trainer), "./trainer"], cwd=ROOT, check=True)
    subprocess.run([str(trainer), *train.split()], cwd=tmp_path, check=True)
    (here,) = tmp_path.glob("logs/ppo/*/classic-CartPole-v1.safetensors")
    assert there.read_bytes() == here.read_bytes()


def test_shares_a_study(windows: Path) -> None:
    """Two processes share seeds by a journal, which they lock in turns."""
    command = "kubernasium train --algo ppo --env classic/CartPole-v1 -n 2000 --seeds 1..4 --study s.log"
    run(windows, f"{command} & {command}; wait $!")
    assert len(list(windows.glob("s.log.seeds/seed_*/*/best_model.safetensors"))) == 4


def test_environments_play_as_on_linux(wine: dict[str, str]) -> None:
    """TestReleased on Windows: spaces and sums of every environment, to the last bit."""
    assert WINE
    printed = released(WINE, GOARCH="amd64", GOOS="windows", **wine)
    assert "sums that differ in the last bits: []" in printed
