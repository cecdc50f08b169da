"""Builds what `pip install kubernasium` takes: wheels with the program inside, and the sdist.

    python tools/dist.py OUT                                # all six platforms
    python tools/dist.py OUT --platform linux/amd64         # one of them
    python tools/dist.py OUT --elsewhere                    # from a copy of the sources in another folder

It needs Go and hatchling (tools/dist.txt). Programs lie in .cache/dist/SYSTEM-ARCHITECTURE afterwards. All dates are
that of the commit, so that two builds of a commit have equal bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = Path("clients", "python")
VERSION = "github.com/kubernasium/kubernasium/version"
TAGS = "nogorgonia"  # without the oracle of the networks: 7 % of the wheel
PLATFORMS = [f"{system}/{arch}" for system in ("linux", "darwin", "windows") for arch in ("amd64", "arm64")]
GO = os.environ.get("GO", "go")


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


def ldflags() -> str:
    """Returns the flags of the linker that set what `--version` prints."""
    date = git("log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ")
    commit = git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")
    return f"-s -w -X {VERSION}.Number={release()} -X {VERSION}.Commit={commit} -X {VERSION}.Date={date}"


def build_program(root: Path, platform: str, folder: Path) -> Path:
    """Builds the program of a platform from the sources in root into folder, and returns its path."""
    system, arch = platform.split("/")
    out = folder / ("kubernasium.exe" if system == "windows" else "kubernasium")
    command = [GO, "build", "-tags", TAGS, "-trimpath", "-buildvcs=false", "-ldflags", ldflags(), "-o", str(out), "./trainer"]
    subprocess.run(
        command, cwd=root, check=True, env={**os.environ, "CGO_ENABLED": "0", "GOOS": system, "GOARCH": arch}
    )
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


def build(root: Path, out: Path, platforms: list[str], sdist: bool) -> list[Path]:
    """Builds the distributions from the sources in root, and prints a row of sizes and seconds for each."""
    made = []
    notices = ROOT / ".cache" / "dist" / "THIRD_PARTY_NOTICES.txt"
    notices.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([GO, "run", "./tools/notices", "-tags", TAGS, "-o", str(notices), "./trainer"], cwd=ROOT, check=True)
    print("| file | MB | program, MB | CPU s |\n|---|--:|--:|--:|", flush=True)
    for platform in platforms:
        start = os.times()
        folder = ROOT / ".cache" / "dist" / platform.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        program = build_program(root, platform, folder)
        system, arch = platform.split("/")
        files = {"KUBERNASIUM_PROGRAM": str(program), "KUBERNASIUM_NOTICES": str(notices)}
        wheel = hatch(root / PYTHON, "wheel", out, GOOS=system, GOARCH=arch, **files)
        row(wheel, f"{program.stat().st_size / 1e6:.1f}", start)
        made.append(wheel)
    if sdist:
        start = os.times()
        made.append(hatch(root / PYTHON, "sdist", out))
        row(made[-1], "", start)
    return made


def row(file: Path, program: str, start: os.times_result) -> None:
    """Prints a row of the table."""
    end = os.times()
    cpu = end.children_user + end.children_system - start.children_user - start.children_system
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
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    platforms = given.platform or PLATFORMS
    if given.elsewhere:
        with tempfile.TemporaryDirectory(prefix="kubernasium-dist-") as folder:
            copy_sources(Path(folder))
            build(Path(folder), out, platforms, not given.no_sdist)
    else:
        build(ROOT, out, platforms, not given.no_sdist)


if __name__ == "__main__":
    main()
