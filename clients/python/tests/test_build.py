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
        hook.build_program(hook.find_repository(root), tmp_path / "program", "linux", "amd64")


def test_failing_build(hook: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text(f"module {hook.MODULE}\n")
    with pytest.raises(SystemExit, match="go build"):
        hook.build_program(tmp_path, tmp_path / "program", "linux", "amd64")


def test_sources_of_an_sdist_come_first(hook: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "go").mkdir()
    (tmp_path / "go" / "go.mod").write_text(f"module {hook.MODULE}\n")
    assert hook.find_repository(tmp_path) == tmp_path / "go"


def test_target(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOS", raising=False)
    monkeypatch.delenv("GOARCH", raising=False)
    monkeypatch.setattr(hook.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(hook.platform, "machine", lambda: "x86_64")
    assert hook.platform_tag(*hook.target()) == "macosx_12_0_x86_64"
    monkeypatch.setenv("GOOS", "linux")
    monkeypatch.setenv("GOARCH", "arm64")
    tag = "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"
    assert hook.platform_tag(*hook.target()) == tag


def test_the_licence_is_the_repository_s(root: Path) -> None:
    assert (root / "LICENSE").read_bytes() == (root.parent.parent / "LICENSE").read_bytes()
