"""Starts programs of a rehearsed release in emulated processors: arm64, and x86-64 without AVX.

    pytest tools/test_release_emulated.py --dist .cache/release/files

QEMU's user-mode emulators, Debian's package qemu-user, play the processors. Clients of programs of arm64 are programs of
x86-64 from the same release.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_dist import ROOT
from test_release import ARCHES, IMAGES, PLATFORMS, RELEASE, name_of

EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
BEFORE_AVX = ("qemu-x86_64", "-cpu", "Nehalem")  # Intel's processors of 2008; AVX came in 2011
MODEL = ROOT / "models" / "pretrained" / "classic-CartPole-v1" / "ppo.safetensors"

pytestmark = pytest.mark.skipif(
    "arm64" not in ARCHES or ("linux", "amd64") not in PLATFORMS, reason="RELEASE_PLATFORMS leaves Linux out"
)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trainer of this machine, from its archive."""
    assert EMULATOR, "qemu-aarch64 is missing: install Debian's package qemu-user"
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(RELEASE / name_of("linux", "amd64")) as archive:
        archive.extractall(folder, filter="data")
    (program,) = folder.glob("*/trainer")
    return program


def unpack(archive: Path, folder: Path) -> Path:
    """Unpacks the layers of an image of arm64, and returns its program."""
    with tarfile.open(archive) as files:

        def blob(digest: str) -> bytes:
            return files.extractfile(f"blobs/{digest.replace(':', '/')}").read()

        (root,) = json.load(files.extractfile("index.json"))["manifests"]
        entries = json.loads(blob(root["digest"]))["manifests"]
        (entry,) = (e for e in entries if e["platform"]["architecture"] == "arm64")
        manifest = json.loads(blob(entry["digest"]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(layer["digest"])))) as members:
                members.extractall(folder, filter="tar")
        (entrypoint,) = json.loads(blob(manifest["config"]["digest"]))["config"]["Entrypoint"]
    return folder / entrypoint.lstrip("/")


@contextlib.contextmanager
def started(folder: Path, program: Path, *args: str) -> Iterator[dict]:
    """Starts an emulated program, which prints a line of JSON when it is ready, and stops it with Ctrl-C."""
    command = [EMULATOR, str(program), *args, "--exit-with-stdin"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            yield json.loads(line)
        finally:
            os.kill(process.pid, signal.SIGINT)
        assert process.wait(120) == 0, (folder / "log").read_text()


def output(*command: str | Path, **env: str) -> str:
    """Returns what a command prints, which must succeed."""
    done = subprocess.run(
        [str(word) for word in command], env={**os.environ, **env}, capture_output=True, text=True, timeout=600, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("image", sorted(IMAGES))
def test_program_of_the_image_starts(dist: Path, tmp_path: Path, trainer: Path, image: str) -> None:
    del trainer  # the emulator is there
    program = unpack(dist / f"kubernasium-{image}_0.1.0_oci.tar", tmp_path)
    command = ["updater"] if image == "vpa-upstream" else []  # it has two programs
    done = subprocess.run([EMULATOR, program, *command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^Usage(:\n  | of \S*){program.name}\b", done.stdout + done.stderr, re.MULTILINE)


def test_server_of_the_image_plays(dist: Path, tmp_path: Path, trainer: Path) -> None:
    """An evaluation over the wire gives the returns that it has in the trainer's own process."""
    program = unpack(dist / "kubernasium-server_0.1.0_oci.tar", tmp_path)
    with started(tmp_path, program, "--listen", "127.0.0.1:0") as ready:
        printed = output(trainer, "eval", "--model", MODEL, "--url", ready["url"], "--verify", "--episodes", "3")
    assert re.search(r"mean return 500.00 .* over 3 held-out episodes", printed), printed


def test_control_plane_schedules(dist: Path, tmp_path: Path, trainer: Path) -> None:
    """A planner of x86-64 binds pods on the API server of the wheel of arm64."""
    (wheel,) = dist.glob("kubernasium_kwok-*aarch64*.whl")
    with zipfile.ZipFile(wheel) as archive:
        program = Path(archive.extract("kubernasium_kwok/bin/controlplane", tmp_path))
    program.chmod(0o755)  # which zipfile does not keep
    assert re.search(r"^go: \S+ linux/arm64$", output(EMULATOR, program, "--version"), re.MULTILINE)
    with started(tmp_path, program) as ready:
        env = {"KUBERNASIUM_KUBECONFIG": ready["kubeconfig"]}
        play = ("eval", "--env", "k8s/PodBalanceKwok-v0", "--baseline", "LeastAllocated", "--env-kwargs", "steps:12")
        printed = output(trainer, *play, "--episodes", "1", **env)
    assert re.search(r"mean placed 12\.00 pods", printed), printed


def test_without_avx(tmp_path: Path, trainer: Path) -> None:
    """The program trains and plays on a processor that knows none of the instructions of the fused kernels."""
    command = (*BEFORE_AVX, trainer, "train", "--algo", "ppo", "--env", "classic/CartPole-v1", "-n", "256", "--eval-freq", "0")
    output(*command, "--params", "n_envs:1", "--params", "n_steps:128", "--params", "batch_size:64", "--log-folder", tmp_path)
    printed = output(*BEFORE_AVX, trainer, "eval", "--model", MODEL, "--episodes", "3")
    assert re.search(r"mean return 500.00 .* over 3 held-out episodes", printed), printed
