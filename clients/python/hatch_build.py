"""Builds the program into the wheel, and puts its Go sources into the sdist.

The wheel holds kubernasium/bin/kubernasium, which has the commands of the trainer and the server, and is tagged for
the platform of the variables GOOS and GOARCH, by default this one. Variables at the build:

  KUBERNASIUM_NO_SERVER=1  the wheel holds Python alone.
  KUBERNASIUM_PROGRAM      a program that was built before, for GOOS and GOARCH.
  KUBERNASIUM_NOTICES      a file with the licences of what the program contains, to put beside it.
  KUBERNASIUM_LDFLAGS      more flags of the linker, such as those that set the version.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "github.com/kubernasium/kubernasium"
PROGRAM = "kubernasium"
SOURCE_FIELDS = ("GoFiles", "IgnoredGoFiles", "SFiles", "IgnoredOtherFiles", "EmbedFiles")  # of `go list`
BUILD_TAGS = "nogorgonia"  # without the oracle of the networks, for its size
SOURCES = "go"  # the folder of the sdist with the Go sources

# The oldest systems that Go supports. A static program depends on no libc, so that one build has the tags of both.
TAGS = {
    ("linux", "amd64"): "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    ("linux", "arm64"): "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    ("darwin", "amd64"): "macosx_12_0_x86_64",
    ("darwin", "arm64"): "macosx_12_0_arm64",
    ("windows", "amd64"): "win_amd64",
    ("windows", "arm64"): "win_arm64",
}
GOARCH = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

_WITHOUT = """
Or set KUBERNASIUM_NO_SERVER=1 to install without a server. The package then needs
KUBERNASIUM_URL (a running server) or KUBERNASIUM_SERVER (the path of a server's binary)."""


class ProgramBuildHook(BuildHookInterface):
    """Runs `go build` and adds the program to the wheel; adds what it is built from to the sdist."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the program before the wheel is put together, or lists the Go sources for the sdist.

        Args:
            version: "standard", or "editable" for `pip install -e`.
            build_data: what the wheel holds; changed in place.
        """
        if os.environ.get("KUBERNASIUM_NO_SERVER") == "1":
            return
        if self.target_name == "sdist":
            root = find_repository(Path(self.root).resolve())
            build_data["force_include"] |= {str(root / name): f"{SOURCES}/{name}" for name in go_sources(root)}
            return
        system, arch = target()
        name = PROGRAM + (".exe" if system == "windows" else "")
        built = os.environ.get("KUBERNASIUM_PROGRAM")
        if version == "editable":  # the package is used where it stands
            folder = Path(self.root, "src", "kubernasium", "bin")
            folder.mkdir(exist_ok=True)
        else:
            folder = Path(tempfile.mkdtemp(prefix="kubernasium-build-"))
            self._folder = folder
            build_data["force_include"][str(folder / name)] = f"kubernasium/bin/{name}"
        if built:
            shutil.copyfile(built, folder / name)
        else:
            build_program(find_repository(Path(self.root).resolve()), folder / name, system, arch)
        (folder / name).chmod(0o755)
        if notices := os.environ.get("KUBERNASIUM_NOTICES"):
            build_data["force_include"][notices] = "kubernasium/THIRD_PARTY_NOTICES.txt"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(system, arch)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what `initialize` made."""
        if hasattr(self, "_folder"):
            shutil.rmtree(self._folder, ignore_errors=True)


def target() -> tuple[str, str]:
    """Returns system and architecture to build for, by Go's names."""
    machine = platform.machine().lower()
    return (
        os.environ.get("GOOS") or platform.system().lower(),
        os.environ.get("GOARCH") or GOARCH.get(machine, machine),
    )


def find_repository(start: Path) -> Path:
    """Returns the folder of the Go module around start, or that of an unpacked sdist."""
    for folder in (start / SOURCES, start, *start.parents):
        mod = folder / "go.mod"
        if mod.is_file() and mod.read_text(encoding="utf-8").split()[:2] == ["module", MODULE]:
            return folder
    raise SystemExit(
        f"kubernasium: the Go sources of the server ({MODULE}) are not around {start}. "
        f"Install from a checkout of the whole repository: pip install ./clients/python.{_WITHOUT}"
    )


def go_sources(root: Path) -> list[str]:
    """Returns the files from which the program is built for any system, relative to root."""
    files = {"go.mod", "go.sum", "LICENSE"}
    for system in sorted({system for system, _ in TAGS}):
        listed = subprocess.run(
            [find_go(root), "list", "-deps", f"-json=Dir,Module,{','.join(SOURCE_FIELDS)}", "./trainer"],
            cwd=root,
            env={**os.environ, "CGO_ENABLED": "0", "GOOS": system},
            capture_output=True,
            text=True,
            check=False,
        )
        if listed.returncode != 0:
            raise SystemExit(f"kubernasium: go list in {root} failed:\n{listed.stderr}{_WITHOUT}")
        rest = listed.stdout
        while rest := rest.lstrip():
            package, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:]
            if not package.get("Module", {}).get("Main"):
                continue
            folder = Path(package["Dir"]).relative_to(root)
            names = [name for field in SOURCE_FIELDS for name in package.get(field) or []]
            files |= {(folder / name).as_posix() for name in names if not name.endswith("_test.go")}
    return sorted(files)


def find_go(root: Path) -> str:
    """Returns the path of Go's command."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise SystemExit(
            "kubernasium: building the server needs Go, and there is no `go` on the PATH. "
            f"Install Go (the version in {root / 'go.mod'} or newer) and try again.{_WITHOUT}"
        )
    return go


def build_program(root: Path, out: Path, system: str, arch: str) -> None:
    """Builds the program, which needs no C library and so runs on any Linux."""
    flags = f"-s -w {os.environ.get('KUBERNASIUM_LDFLAGS', '')}".strip()
    command = [find_go(root), "build", "-tags", BUILD_TAGS, "-trimpath", "-buildvcs=false", f"-ldflags={flags}"]
    command += ["-o", str(out), "./trainer"]
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "CGO_ENABLED": "0", "GOOS": system, "GOARCH": arch},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"kubernasium: {' '.join(command)} in {root} failed:\n{done.stdout}{done.stderr}{_WITHOUT}")


def platform_tag(system: str, arch: str) -> str:
    """Returns the platform tag of a wheel with a program for this system and architecture."""
    return TAGS.get((system, arch)) or sysconfig.get_platform().replace("-", "_").replace(".", "_")
