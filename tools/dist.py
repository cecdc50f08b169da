"""Builds what `pip install kubernasium` takes: wheels with the program inside, and the sdist.

    python tools/dist.py OUT                                # all six platforms
    python tools/dist.py OUT --platform linux/amd64         # one of them
    python tools/dist.py OUT --elsewhere                    # from a copy of the sources in another folder
    python tools/dist.py OUT --kwok                         # the control plane's wheels for Linux, too

It needs Go, hatchling and deflate (tools/dist.txt). Programs lie in .cache/dist/SYSTEM-ARCHITECTURE afterwards. All
dates are that of the commit, so that two builds of a commit have equal bytes.
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import deflate

ROOT = Path(__file__).resolve().parent.parent
PYTHON = Path("clients", "python")
VERSION = "github.com/kubernasium/kubernasium/version"
TAGS = "nogorgonia"  # without the oracle of the networks: 7 % of the wheel
PLATFORMS = [f"{system}/{arch}" for system in ("linux", "darwin", "windows") for arch in ("amd64", "arm64")]
GO = os.environ.get("GO", "go")
KWOK = Path("clients", "python-kwok")  # the package of the control plane
CONTROLPLANE = Path("kwok", "controlplane")


def git(*args: str) -> str:
    """Returns what git prints."""
    return subprocess.run(["git", *args], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def release() -> str:
    """Returns the version of the package, which is that of the release."""
    found = re.search(
        r'^__version__ = "(.+)"', (ROOT / PYTHON / "src/kubernasium/__init__.py").read_text(), re.MULTILINE
    )
    assert found
    return found[1]


def commit_and_date() -> tuple[str, str]:
    """Returns the commit, with a mark if files differ from it, and its date."""
    date = git("log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ")
    return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else ""), date


def ldflags() -> str:
    """Returns the flags of the linker that set what `--version` prints."""
    commit, date = commit_and_date()
    return f"-s -w -X {VERSION}.Number={release()} -X {VERSION}.Commit={commit} -X {VERSION}.Date={date}"


def build_program(root: Path, platform: str, folder: Path) -> Path:
    """Builds the program of a platform from the sources in root into folder, and returns its path."""
    system, arch = platform.split("/")
    out = folder / ("kubernasium.exe" if system == "windows" else "kubernasium")
    command = [
        GO,
        "build",
        "-tags",
        TAGS,
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        ldflags(),
        "-o",
        str(out),
        "./trainer",
    ]
    subprocess.run(
        command, cwd=root, check=True, env={**os.environ, "CGO_ENABLED": "0", "GOOS": system, "GOARCH": arch}
    )
    return out


def build_control_plane(root: Path, platform: str, folder: Path) -> Path:
    """Builds the control plane, as `make controlplane` does, but with the commit that the linker sets."""
    system, arch = platform.split("/")
    out = folder / "controlplane"
    env = {**os.environ, "CGO_ENABLED": "0", "GOOS": system, "GOARCH": arch, "GOFLAGS": "-trimpath -buildvcs=false"}
    kubernetes = subprocess.run(
        [GO, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"],
        cwd=root / CONTROLPLANE, env=env, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    flags = (
        f"-s -w -X k8s.io/component-base/version.gitVersion={kubernetes} "
        f"-X 'main.linkedCommit={' of '.join(commit_and_date())}'"
    )
    subprocess.run([GO, "build", "-ldflags", flags, "-o", str(out), "."], cwd=root / CONTROLPLANE, env=env, check=True)
    return out


def notices(folder: str, name: str, *packages: str, tags: str = "") -> Path:
    """Writes the licences of what programs contain into .cache/dist, and returns the file's path."""
    out = ROOT / ".cache" / "dist" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [GO, "run", "./tools/notices", "-C", folder, "-tags", tags, "-o", str(out), *packages]
    subprocess.run(command, cwd=ROOT, check=True)
    return out


def hatch(project: Path, kind: str, out: Path, **env: str) -> Path:
    """Builds an sdist or a wheel into out and returns its path."""
    before = set(out.iterdir())
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(out)],
        cwd=project, check=True, stdout=subprocess.DEVNULL,
        env={"SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct"), **os.environ, **env},
    )  # fmt: skip
    (made,) = set(out.iterdir()) - before
    return made


def copy_sources(folder: Path) -> None:
    """Copies all files that git tracks, with their changes."""
    for name in git("ls-files", "-z").split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)


def build(root: Path, out: Path, platforms: list[str], sdist: bool, kwok: bool) -> list[Path]:
    """Builds the distributions from the sources in root, and prints a row of sizes and seconds for each."""
    made = []
    licences = notices(".", "THIRD_PARTY_NOTICES.txt", "./trainer", tags=TAGS)
    print("| file | MB | program, MB | CPU s |\n|---|--:|--:|--:|", flush=True)
    for platform in platforms:
        made.append(build_wheel(root / PYTHON, platform, out, licences, lambda p, f: build_program(root, p, f)))
    if kwok:
        licences = notices(str(CONTROLPLANE), "THIRD_PARTY_NOTICES-kwok.txt", ".")
        for platform in [p for p in platforms if p.startswith("linux/")]:
            made.append(build_wheel(root / KWOK, platform, out, licences, lambda p, f: build_control_plane(root, p, f)))
    if sdist:
        start = os.times()
        made.append(hatch(root / PYTHON, "sdist", out))
        row(made[-1], "", start)
    return made


def build_wheel(project: Path, platform: str, out: Path, licences: Path, build_it: Callable[[str, Path], Path]) -> Path:
    """Builds a program and the wheel that holds it, prints its row and returns its path."""
    start = os.times()
    folder = ROOT / ".cache" / "dist" / platform.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    program = build_it(platform, folder)
    system, arch = platform.split("/")
    files = {"KUBERNASIUM_PROGRAM": str(program), "KUBERNASIUM_NOTICES": str(licences)}
    wheel = hatch(project, "wheel", out, GOOS=system, GOARCH=arch, **files)
    pack(wheel)
    row(wheel, f"{program.stat().st_size / 1e6:.1f}", start)
    return wheel


class Densest:
    """Compresses a file of a zip archive as densely as libdeflate can: 4 % denser than zlib."""

    def __init__(self) -> None:
        self._data = bytearray()

    def compress(self, data: bytes) -> bytes:
        """Takes in a part of the file."""
        self._data += data
        return b""

    def flush(self) -> bytes:
        """Returns the file, compressed."""
        return deflate.deflate_compress(self._data, 12)


def pack(wheel: Path) -> None:
    """Compresses the files of a wheel again. Nothing else about them changes."""
    packed = wheel.with_suffix(".packed")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            written: IO[bytes]
            with old.open(info) as source, new.open(copy.copy(info), "w") as written:
                written._compressor = Densest()  # type: ignore[attr-defined]  # ZipFile has no argument for it
                shutil.copyfileobj(source, written)
    packed.replace(wheel)


def row(file: Path, program: str, start: os.times_result) -> None:
    """Prints a row of the table."""
    end = os.times()
    cpu = sum(end[:4]) - sum(start[:4])  # of this process and of those that it ran
    print(f"| {file.name} | {file.stat().st_size / 1e6:.1f} | {program} | {cpu:.0f} |", flush=True)


def main() -> None:
    """Runs the command line."""
    os.environ["TZ"] = "UTC"  # for dates of git
    time.tzset()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--platform", action="append", choices=PLATFORMS)
    parser.add_argument("--no-sdist", action="store_true")
    parser.add_argument("--elsewhere", action="store_true")
    parser.add_argument("--kwok", action="store_true")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    platforms = given.platform or PLATFORMS
    if given.elsewhere:
        with tempfile.TemporaryDirectory(prefix="kubernasium-dist-") as folder:
            copy_sources(Path(folder))
            build(Path(folder), out, platforms, not given.no_sdist, given.kwok)
    else:
        build(ROOT, out, platforms, not given.no_sdist, given.kwok)


if __name__ == "__main__":
    main()
