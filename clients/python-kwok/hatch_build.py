"""Puts the control plane into the wheel.

The program is that of the variable KUBERNASIUM_PROGRAM, built for the platform of GOOS and GOARCH, or bin/controlplane
of the repository, which `make controlplane` builds for this machine. KUBERNASIUM_NOTICES names the file with licences.
"""

from __future__ import annotations

import os
import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ControlPlaneBuildHook(BuildHookInterface):
    """Adds the program to the wheel, and the platform's tag."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the files before the wheel is put together.

        Args:
            version: "standard", or "editable" for `pip install -e`.
            build_data: what the wheel holds; changed in place.
        """
        root = Path(self.root).resolve()
        built = Path(os.environ.get("KUBERNASIUM_PROGRAM") or root.parent.parent / "bin" / "controlplane")
        if not built.is_file():
            raise SystemExit(f"kubernasium-kwok: there is no {built}: run `make controlplane` in the repository first")
        hook = runpy.run_path(str(root.parent / "python" / "hatch_build.py"))
        if version == "editable":  # the package is used where it stands
            folder = root / "src" / "kubernasium_kwok" / "bin"
            folder.mkdir(exist_ok=True)
        else:
            self._folder = folder = Path(tempfile.mkdtemp(prefix="kubernasium-kwok-"))
            build_data["force_include"][str(folder / "controlplane")] = "kubernasium_kwok/bin/controlplane"
        shutil.copyfile(built, folder / "controlplane")
        (folder / "controlplane").chmod(0o755)
        if notices := os.environ.get("KUBERNASIUM_NOTICES"):
            build_data["force_include"][notices] = "kubernasium_kwok/THIRD_PARTY_NOTICES.txt"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{hook['platform_tag'](*hook['target']())}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what `initialize` made."""
        if hasattr(self, "_folder"):
            shutil.rmtree(self._folder, ignore_errors=True)
