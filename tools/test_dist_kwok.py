"""Checks the control plane's wheels, and starts a cluster from one: pytest tools/test_dist_kwok.py --dist FOLDER.

FOLDER holds the wheels of kubernasium and of kubernasium-kwok of this platform, or of more.
"""

from __future__ import annotations

import email
import os
import platform
import re
import signal
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest
from test_dist import MACHINES, TAGS, machine_of

LIMIT = 100_000_000  # bytes of a file at the index of Python packages


def wheels(dist: Path) -> list[Path]:
    found = sorted(dist.glob("kubernasium_kwok-*.whl"))
    assert found, f"{dist} holds no wheel of kubernasium-kwok"
    return found


def test_contents(dist: Path) -> None:
    for wheel in wheels(dist):
        tag = wheel.stem.split("-")[-1]
        assert tag in TAGS
        assert wheel.stat().st_size <= LIMIT
        with zipfile.ZipFile(wheel) as archive:
            (info,) = {n.split("/")[0] for n in archive.namelist() if n.split("/")[0].endswith(".dist-info")}
            package = {"__init__.py", "py.typed", "THIRD_PARTY_NOTICES.txt", "bin/controlplane"}
            metadata = {f"{info}/{n}" for n in ("METADATA", "RECORD", "WHEEL", "licenses/LICENSE")}
            assert set(archive.namelist()) == {f"kubernasium_kwok/{n}" for n in package} | metadata
            program = archive.getinfo("kubernasium_kwok/bin/controlplane")
            assert program.external_attr >> 16 & 0o111 == 0o111
            arch = "x86_64" if "x86_64" in tag else "aarch64"
            assert machine_of(archive.open(program).read(4096)) in MACHINES[arch]
            notices = archive.read("kubernasium_kwok/THIRD_PARTY_NOTICES.txt").decode()
            for text in ("go.etcd.io/etcd/server/v3", "k8s.io/kubernetes", "sigs.k8s.io/kwok", "The Go Authors"):
                assert text in notices, text
            described = email.message_from_bytes(archive.read(f"{info}/METADATA"))
            assert described["License-Expression"] == "Apache-2.0"
            assert described["Version"] == "0.1.0"


@pytest.fixture(scope="module")
def clean(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment in which the extra was installed, from wheels alone."""
    folder = tmp_path_factory.mktemp("kwok")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "msgpack==1.2.4", "numpy"], check=True)
    subprocess.run([*pip, "--no-index", "--find-links", str(dist), "kubernasium[kwok]"], check=True)
    return folder


def environment(clean: Path) -> dict[str, str]:
    """Variables of a user without Go."""
    return {"PATH": "/nonexistent", "HOME": str(clean), "TMPDIR": "/tmp"}


def test_program_says_its_commit(clean: Path) -> None:
    (program,) = clean.glob("lib/python*/site-packages/kubernasium_kwok/bin/controlplane")
    printed = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    assert re.search(r"^commit: [0-9a-f]{40}(\+changes)? of 20\d\d-\S+Z$", printed, re.MULTILINE), printed
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    assert re.search(rf"^go: \S+ linux/{arch}$", printed, re.MULTILINE)
    assert re.search(r"^kubernetes: v1\.\d+\.\d+$", printed, re.MULTILINE)


def test_cluster_without_go(clean: Path) -> None:
    """`kubernasium kwok up` starts the cluster of the extra with its nodes, and ends with Ctrl-C."""
    kubeconfig = clean / "kubeconfig"
    command = [str(clean / "bin" / "kubernasium"), "kwok", "up", "--nodes", "3", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(
        command, env=environment(clean), cwd=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as cluster:
        try:
            printed = ""
            for line in cluster.stdout:
                printed += line
                if "kubectl get pods" in line:
                    break
            assert re.search(r"^Kubernetes v1\.\d+\.\d+ with KWOK ", printed, re.MULTILINE), printed
            assert "kubectl get nodes" in printed  # it has made them
            assert kubeconfig.is_file()
        finally:
            os.kill(cluster.pid, signal.SIGINT)
        printed += cluster.stdout.read()
        assert cluster.wait(120) in (0, 130), printed
