"""The build hook: where it looks for the Go sources, and what it says without Go."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def hook(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", root / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_repository_is_found(hook: ModuleType, root: Path) -> None:
    assert (hook.find_repository(root) / "server" / "PROTOCOL.md").exists()


def test_outside_a_repository(hook: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.com/other\n")
    with pytest.raises(SystemExit, match="checkout of the whole repository"):
        hook.find_repository(tmp_path)


def test_without_go(hook: ModuleType, monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path) -> None:
    monkeypatch.setattr(hook.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match=r"(?s)Install Go.*KUBERNASIUM_NO_SERVER=1"):
        hook.build_server(hook.find_repository(root), tmp_path / "server")


def test_failing_build(hook: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text(f"module {hook.MODULE}\n")
    with pytest.raises(SystemExit, match="go build"):
        hook.build_server(tmp_path, tmp_path / "server")


def test_platform_tag(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook.platform, "system", lambda: "Linux")
    monkeypatch.setattr(hook.platform, "machine", lambda: "x86_64")
    assert hook.platform_tag() == "manylinux_2_17_x86_64.musllinux_1_1_x86_64"
