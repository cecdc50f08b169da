"""Checks the files of `make release-dry-run`: pytest tools/test_release.py --dist .cache/release/files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from test_dist import MACHINES, ROOT, machine_of, own_wheel

RELEASE = ROOT / ".cache" / "release" / "dist"
TOOLS = ROOT / ".cache" / "tools"
PUBLIC = ROOT / ".cache" / "release-key" / "cosign.pub"
ALL = "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64"
PLATFORMS = [tuple(p.split("/")) for p in (os.environ.get("RELEASE_PLATFORMS") or ALL).split()]
ARCHES = [arch for system, arch in PLATFORMS if system == "linux"]
TEXTS = {"LICENSE", "README.md", "CHANGELOG.md", "THIRD_PARTY_NOTICES.txt"}
IMAGES = {"server", "trainer", "scheduler", "controlplane", "vpa-upstream"}


def name_of(system: str, arch: str) -> str:
    """Returns the name of a platform's archive."""
    return f"kubernasium_0.1.0_{system}_{arch}" + (".zip" if system == "windows" else ".tar.gz")


def contents(archive: Path) -> dict[str, tuple[int, bytes]]:
    """Returns mode and bytes of an archive's files."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as z:
            return {i.filename: (i.external_attr >> 16 & 0o777, z.read(i)) for i in z.infolist() if not i.is_dir()}
    with tarfile.open(archive) as t:
        return {m.name: (m.mode & 0o777, t.extractfile(m).read()) for m in t.getmembers() if m.isfile()}


@pytest.fixture
def page(dist: Path, tmp_path: Path) -> Path:
    """A folder as a user has it who fetched everything from the page of the release, and the public key."""
    for file in [*RELEASE.iterdir(), *dist.iterdir()]:
        if file.is_file() and file.name not in ("artifacts.json", "metadata.json", "config.yaml"):
            os.link(file, tmp_path / file.name)
    shutil.copy(PUBLIC, tmp_path / "cosign.pub")
    return tmp_path


def verification() -> str:
    """Returns the commands of docs/install.md that verify what was fetched."""
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"\n## Verify\n(.*?)\n## ", text, re.DOTALL)
    commands = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    assert [c.split()[0] for c in commands] == ["cosign", "sha256sum"]
    return " && ".join(commands)


def verify(page: Path) -> subprocess.CompletedProcess[str]:
    """Runs these commands in a folder, without a network."""
    closed = "http://127.0.0.1:9"
    env = {**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}", "HTTP_PROXY": closed, "HTTPS_PROXY": closed}
    env |= {"HOME": str(page)}
    return subprocess.run(verification(), shell=True, cwd=page, env=env, capture_output=True, text=True, check=False)


def replace(file: Path, change: bytes) -> None:
    """Replaces a file, of which other links keep the old content, by one with other bytes at its end."""
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[: -len(change)] + change)


def test_everything_is_in_the_signed_list(page: Path, dist: Path) -> None:
    listed = {line.split()[1]: line.split()[0] for line in (page / "SHA256SUMS").read_text().splitlines()}
    archives = {name_of(*platform) for platform in PLATFORMS}
    expected = archives | {f"{name}.spdx.json" for name in archives} | {file.name for file in dist.iterdir()}
    assert set(listed) == expected
    images = {f"kubernasium-{name}_0.1.0_oci.tar" for name in IMAGES}
    others = {"kubernasium-0.1.0.tgz", "kubernasium-0.1.0.tar.gz"}
    assert images | others <= expected
    wheels = [name for name in listed if name.endswith(".whl")]
    assert len(wheels) == len(PLATFORMS) + len(ARCHES)  # the control plane has wheels for Linux
    for name, digest in listed.items():
        assert hashlib.sha256((page / name).read_bytes()).hexdigest() == digest, name


def test_verification(page: Path) -> None:
    done = verify(page)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name_of('linux', 'amd64')}: OK" in done.stdout


def test_a_broken_archive_is_refused(page: Path) -> None:
    replace(page / name_of("linux", "amd64"), b"x")
    done = verify(page)
    assert done.returncode != 0
    assert f"{name_of('linux', 'amd64')}: FAILED" in done.stdout


def test_a_changed_list_is_refused(page: Path) -> None:
    """Who changes an archive and its checksum has no signature of the list."""
    broken = page / name_of("linux", "amd64")
    old = hashlib.sha256(broken.read_bytes()).hexdigest()
    replace(broken, b"x")
    sums = page / "SHA256SUMS"
    text = sums.read_text().replace(old, hashlib.sha256(broken.read_bytes()).hexdigest())
    sums.unlink()
    sums.write_text(text)
    done = verify(page)
    assert done.returncode != 0
    assert "OK" not in done.stdout  # the first command has failed


def test_another_key_is_refused(page: Path) -> None:
    env = {**os.environ, "COSIGN_PASSWORD": ""}
    command = [str(TOOLS / "cosign"), "generate-key-pair", "--output-key-prefix", str(page / "other")]
    subprocess.run(command, env=env, check=True, capture_output=True)
    (page / "other.pub").replace(page / "cosign.pub")
    assert verify(page).returncode != 0


@pytest.mark.parametrize(("system", "arch"), PLATFORMS)
def test_archive(system: str, arch: str) -> None:
    archive = RELEASE / name_of(system, arch)
    files = contents(archive)
    (top,) = {name.split("/")[0] for name in files}
    assert archive.name.startswith(top)
    suffix = ".exe" if system == "windows" else ""
    assert {name.removeprefix(f"{top}/") for name in files} == TEXTS | {f"server{suffix}", f"trainer{suffix}"}
    for program in ("server", "trainer"):
        mode, data = files[f"{top}/{program}{suffix}"]
        assert mode & 0o111 == 0o111
        assert data.startswith({"linux": b"\x7fELF", "darwin": b"\xcf\xfa\xed\xfe", "windows": b"MZ"}[system])
        assert machine_of(data[:4096]) in MACHINES["x86_64" if arch == "amd64" else "aarch64"]
    assert files[f"{top}/LICENSE"][1] == (ROOT / "LICENSE").read_bytes()
    notices = files[f"{top}/THIRD_PARTY_NOTICES.txt"][1].decode()
    for text in ("k8s.io/client-go", "Copyright (c) 2009 The Go Authors", "Apache License"):
        assert text in notices, text


def test_programs_are_those_of_the_wheels(dist: Path) -> None:
    """Two tools that build the same commit make equal bytes."""
    with zipfile.ZipFile(own_wheel(dist)) as wheel:
        of_wheel = wheel.read("kubernasium/bin/kubernasium")
    files = contents(RELEASE / name_of("linux", "amd64"))
    (of_archive,) = (data for name, (_, data) in files.items() if name.endswith("/trainer"))
    assert hashlib.sha256(of_archive).hexdigest() == hashlib.sha256(of_wheel).hexdigest()


@pytest.mark.parametrize(("system", "arch"), PLATFORMS)
def test_sbom_lists_the_modules_of_the_programs(system: str, arch: str, tmp_path: Path) -> None:
    """Go records the modules in each program, and its command prints them."""
    archive = RELEASE / name_of(system, arch)
    document = json.loads((RELEASE / f"{archive.name}.spdx.json").read_text())
    assert document["spdxVersion"].startswith("SPDX-2.")
    assert document["documentNamespace"].endswith(hashlib.sha256(archive.read_bytes()).hexdigest())
    found = {(p["name"], p.get("versionInfo")) for p in document["packages"]}
    modules = set()
    for name, (_, data) in contents(archive).items():
        if Path(name).stem in ("server", "trainer"):
            (tmp_path / Path(name).name).write_bytes(data)
            printed = subprocess.run(
                [os.environ.get("GO", "go"), "version", "-m", str(tmp_path / Path(name).name)],
                check=True, capture_output=True, text=True,
            ).stdout  # fmt: skip
            modules |= set(re.findall(r"^\tdep\t(\S+)\t(\S+)", printed, re.MULTILINE))
    assert len(modules) > 50
    assert modules <= found, modules - found


def test_programs_run(tmp_path: Path) -> None:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    with tarfile.open(RELEASE / name_of("linux", "amd64")) as archive:
        archive.extractall(tmp_path, filter="data")
    for program in ("server", "trainer"):
        (path,) = tmp_path.glob(f"*/{program}")
        printed = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
        assert printed.startswith(f"{program} version 0.1.0\n")
        assert f"commit: {commit.strip()}" in printed


@pytest.mark.parametrize("image", sorted(IMAGES))
def test_image(dist: Path, image: str) -> None:
    """An image of each architecture, with programs of it, and the licences of what they contain."""
    with tarfile.open(dist / f"kubernasium-{image}_0.1.0_oci.tar") as archive:

        def blob(digest: str) -> bytes:
            data = archive.extractfile(f"blobs/{digest.replace(':', '/')}").read()
            assert f"sha256:{hashlib.sha256(data).hexdigest()}" == digest
            return data

        (root,) = json.load(archive.extractfile("index.json"))["manifests"]
        entries = json.loads(blob(root["digest"]))["manifests"]
        assert [e["platform"]["architecture"] for e in entries] == ARCHES
        for entry in entries:
            manifest = json.loads(blob(entry["digest"]))
            config = json.loads(blob(manifest["config"]["digest"]))
            arch = config["architecture"]
            assert arch == entry["platform"]["architecture"]
            assert config["config"]["User"] == "65532:65532"
            files: dict[str, bytes] = {}
            for layer in manifest["layers"]:
                files |= layer_files(blob(layer["digest"]))
            (entrypoint,) = config["config"]["Entrypoint"]
            program = files[entrypoint.lstrip("/")]
            assert machine_of(program[:64]) in MACHINES["x86_64" if arch == "amd64" else "aarch64"]
            assert files["licences/LICENSE"] == (ROOT / "LICENSE").read_bytes()
            assert b"Copyright (c) 2009 The Go Authors" in files["licences/THIRD_PARTY_NOTICES.txt"]


def layer_files(data: bytes) -> dict[str, bytes]:
    """Returns the files of a layer."""
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as layer:
        return {m.name: layer.extractfile(m).read() for m in layer.getmembers() if m.isfile()}


def test_the_chart_names_images_of_the_release() -> None:
    values = (ROOT / "deploy" / "helm" / "kubernasium" / "values.yaml").read_text(encoding="utf-8")
    named = re.findall(r"repository: kubernasium/([\w-]+)", values)
    assert set(named) == {"server", "scheduler", "trainer"}
    assert set(named) <= IMAGES


def test_chart(dist: Path) -> None:
    command = [str(ROOT / "bin" / "helm"), "show", "chart", str(dist / "kubernasium-0.1.0.tgz")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "appVersion: 0.1.0" in printed.replace('"', "")
