"""Builds the Go server into the wheel.

The wheel holds kubernasium/bin/kubernasium-server and is tagged for this platform. With the
environment variable KUBERNASIUM_NO_SERVER=1 it holds Python alone.
"""

from __future__ import annotations

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
BINARY = "kubernasium-server"

_WITHOUT = """
Or set KUBERNASIUM_NO_SERVER=1 to install without a server. The package then needs
KUBERNASIUM_URL (a running server) or KUBERNASIUM_SERVER (the path of a server's binary)."""


class ServerBuildHook(BuildHookInterface):
    """Runs `go build` and adds the binary to the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the server before the wheel is put together.

        Args:
            version: "standard", or "editable" for `pip install -e`.
            build_data: what the wheel holds; changed in place.
        """
        if os.environ.get("KUBERNASIUM_NO_SERVER") == "1":
            return
        root = find_repository(Path(self.root).resolve())
        if version == "editable":  # the package is used where it stands
            folder = Path(self.root, "src", "kubernasium", "bin")
            folder.mkdir(exist_ok=True)
        else:
            folder = Path(tempfile.mkdtemp(prefix="kubernasium-build-"))
            self._folder = folder
            build_data["force_include"][str(folder / BINARY)] = f"kubernasium/bin/{BINARY}"
            build_data["force_include"][str(root / "LICENSE")] = "kubernasium/LICENSE"
        build_server(root, folder / BINARY)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what `initialize` made."""
        if hasattr(self, "_folder"):
            shutil.rmtree(self._folder, ignore_errors=True)


def find_repository(start: Path) -> Path:
    """Returns the folder of the Go module around start."""
    for folder in (start, *start.parents):
        mod = folder / "go.mod"
        if mod.is_file() and mod.read_text(encoding="utf-8").split()[:2] == ["module", MODULE]:
            return folder
    raise SystemExit(
        f"kubernasium: the Go sources of the server ({MODULE}) are not around {start}. "
        f"Install from a checkout of the whole repository: pip install ./clients/python.{_WITHOUT}"
    )


def build_server(root: Path, out: Path) -> None:
    """Builds the server's binary, which needs no C library and so runs on any Linux."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise SystemExit(
            "kubernasium: building the server needs Go, and there is no `go` on the PATH. "
            f"Install Go (the version in {root / 'go.mod'} or newer) and try again.{_WITHOUT}"
        )
    command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(out), "./server"]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "CGO_ENABLED": "0"}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"kubernasium: {' '.join(command)} in {root} failed:\n{done.stdout}{done.stderr}{_WITHOUT}")


def platform_tag() -> str:
    """Returns the wheel tag of this platform. A static binary depends on no libc."""
    machine = platform.machine().lower()
    if platform.system() == "Linux" and machine in ("x86_64", "aarch64"):
        return f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
