"""Runs the program of arm64 from its wheel on an emulated processor: pytest tools/test_dist_arm64.py --dist FOLDER.

FOLDER holds the wheel of Linux on arm64. QEMU's user-mode emulator, Debian's package qemu-user, emulates the
processor. docs/install.md has the expected output, which was printed on x86-64.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from foreign import check_transcript, install, released, run
from test_dist import ROOT

EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")


@pytest.fixture(scope="module")
def emulated(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of this machine with the wheel of arm64, whose program an emulator runs."""
    assert EMULATOR, "qemu-aarch64 is missing: install Debian's package qemu-user"
    folder = tmp_path_factory.mktemp("arm64")
    (wheel,) = dist.glob("kubernasium-*linux_2_17_aarch64*.whl")
    site = install(folder, wheel, "manylinux2014_aarch64")
    program = site / "kubernasium" / "bin" / "kubernasium"
    real = program.rename(program.with_name("arm64"))
    program.write_text(f'#!/bin/sh\nexec {EMULATOR} {real} "$@"\n')
    program.chmod(0o755)
    (folder / "bin" / "kubernasium").symlink_to(site / "bin" / "kubernasium")
    return folder


def test_program_is_of_arm64(emulated: Path) -> None:
    assert re.search(r"^go: go1\.\S+ linux/arm64$", run(emulated, "kubernasium --version"), re.MULTILINE)


def test_prints_what_x86_64_prints(emulated: Path) -> None:
    """The first step over the wire and an evaluation, to the last digit."""
    check_transcript(emulated)


def test_serves_clients_of_x86_64(emulated: Path) -> None:
    """A vector over TCP: CartPole rewards each step with 1."""
    code = """
        import os

        import kubernasium
        from kubernasium.launcher import Server
        with Server(args=["--listen", "127.0.0.1:0"]) as server:
            os.environ["KUBERNASIUM_URL"] = server.ws_url
            with kubernasium.make_vec("classic/CartPole-v1", 4) as envs:
                envs.reset(seed=1)
                print(server.ws_url[:15], envs.step([0, 1, 0, 1])[1].tolist())
    """
    (emulated / "play.py").write_text(textwrap.dedent(code))
    assert run(emulated, "python play.py") == "ws://127.0.0.1: [1.0, 1.0, 1.0, 1.0]\n"


def test_environments_play_as_on_x86_64(emulated: Path) -> None:
    """TestReleased on arm64: spaces and sums are as promised; docs/versions.md names sums that differ in last bits."""
    del emulated  # the emulator is there
    assert EMULATOR
    printed = released(EMULATOR, GOARCH="arm64", GOOS="linux")
    print(printed, file=sys.stderr)
    (logged,) = re.findall(r"sums that differ in the last bits: \[(.*)\]", printed)
    text = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    (documented,) = re.findall(r"\nOn arm64 .*?\n\n", text, re.DOTALL)
    assert set(re.findall(r'"(.+?)"', logged)) == set(re.findall(r"`(k8s/\S+)`", documented))
