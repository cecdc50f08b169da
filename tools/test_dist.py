"""Checks a wheel of `make dist` and installs it where there is no Go: pytest tools/test_dist.py --dist FOLDER.

FOLDER holds wheels, of which that of this platform is installed, and the sdist.
"""

from __future__ import annotations

import email
import hashlib
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

LIMIT = 25_000_000  # bytes of a wheel
CPU = 30.0  # seconds of CPU of the documented installation, from the wheel on
ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "clients" / "python" / "src" / "kubernasium"

# By PEP 425, 600 and 656; Go 1.26 runs from macOS 12 on.
TAGS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64": b"\x7fELF\x02\x01\x01",
    "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64": b"\x7fELF\x02\x01\x01",
    "macosx_12_0_x86_64": b"\xcf\xfa\xed\xfe",
    "macosx_12_0_arm64": b"\xcf\xfa\xed\xfe",
    "win_amd64": b"MZ",
    "win_arm64": b"MZ",
}
# Machines in the headers of programs, by the constants of the System V ABI, Mach-O and PE.
MACHINES = {"x86_64": (0x3E, 0x01000007, 0x8664), "aarch64": (0xB7, 0x0100000C, 0xAA64)}


def wheels(dist: Path) -> list[Path]:
    found = sorted(dist.glob("kubernasium-*.whl"))
    assert found, f"{dist} holds no wheel"
    return found


def own_wheel(dist: Path) -> Path:
    machine = platform.machine()
    (found,) = [w for w in wheels(dist) if f"linux_2_17_{machine}" in w.name]
    return found


def machine_of(head: bytes) -> int:
    if head[:4] == b"\x7fELF":
        return int.from_bytes(head[18:20], "little")
    if head[:4] == b"\xcf\xfa\xed\xfe":
        return int.from_bytes(head[4:8], "little")
    at = int.from_bytes(head[0x3C:0x40], "little")
    return int.from_bytes(head[at + 4 : at + 6], "little")


def test_tools_accept_the_files(dist: Path) -> None:
    files = [str(p) for p in dist.iterdir()]
    for command in (
        ["twine", "check", "--strict", *files],
        ["check_wheel_contents", *(f for f in files if f.endswith(".whl"))],
    ):
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_wheel_contents(dist: Path) -> None:
    for wheel in wheels(dist):
        tag = wheel.stem.split("-")[-1]
        windows = tag.startswith("win")
        program = "kubernasium/bin/kubernasium" + (".exe" if windows else "")
        assert wheel.stat().st_size <= LIMIT, wheel
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            (info,) = {n.split("/")[0] for n in names if n.split("/")[0].endswith(".dist-info")}
            sources = {f"kubernasium/{p.relative_to(PACKAGE).as_posix()}" for p in PACKAGE.rglob("*.py")}
            others = {
                "kubernasium/catalog.json",
                "kubernasium/py.typed",
                "kubernasium/THIRD_PARTY_NOTICES.txt",
                program,
            }
            metadata = {f"{info}/{n}" for n in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
            assert names == sources | others | metadata, names ^ (sources | others | metadata)
            assert archive.getinfo(program).external_attr >> 16 & 0o111 == 0o111, "the program is not executable"
            head = archive.open(program).read(4096)
            assert head.startswith(TAGS[tag])
            arch = "x86_64" if tag.endswith(("x86_64", "amd64")) else "aarch64"
            assert machine_of(head) in MACHINES[arch], f"{wheel} holds a program for another machine"
            tags = email.message_from_bytes(archive.read(f"{info}/WHEEL"))
            assert tags["Root-Is-Purelib"] == "false"
            assert set(tags.get_all("Tag")) == {f"py3-none-{t}" for t in tag.split(".")}
            assert "kubernasium = kubernasium.__main__:program" in archive.read(f"{info}/entry_points.txt").decode()
            notices = archive.read("kubernasium/THIRD_PARTY_NOTICES.txt").decode()
            for text in (
                "k8s.io/client-go",
                "Copyright (c) 2009 The Go Authors",
                "gonum.org/v1/gonum",
                "Apache License",
            ):
                assert text in notices, f"the notices of {wheel} do not hold {text!r}"
            assert "gorgonia" not in notices, "the program has an engine that wheels leave out"


def test_metadata(dist: Path) -> None:
    wheel = own_wheel(dist)
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {u.split(",")[0] for u in metadata.get_all("Project-URL")} == {
        "Changelog",
        "Documentation",
        "Issues",
        "Source",
    }
    classifiers = set(metadata.get_all("Classifier"))
    assert {
        "Typing :: Typed",
        "Operating System :: Microsoft :: Windows",
        "Programming Language :: Python :: 3.10",
    } <= classifiers
    assert not any(c.startswith("License ::") for c in classifiers), "PEP 639: the expression stands alone"


def test_sdist_holds_what_the_program_is_built_from(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    top = sdist.name.removesuffix(".tar.gz")
    names = {m.name.removeprefix(f"{top}/") for m in members}
    assert {"PKG-INFO", "LICENSE", "hatch_build.py", "src/kubernasium/py.typed", "go/go.mod", "go/go.sum"} <= names
    # A file for another system, an assembly source, and one that is embedded.
    assert {"go/server/command/listen_other.go", "go/models/fused/kernels_amd64.s", "go/board/dist/app.js"} <= names
    assert not [n for n in names if n.endswith("_test.go")]
    assert all(m.isfile() for m in members)


# What differs from build to build in the transcript.
VARIES = (r"commit: [0-9a-f]{40}(\+changes)? of \S+", r"go: go1\.\d+(\.\d+)? \w+/\w+")


@pytest.fixture(scope="module")
def clean(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the wheel and Gymnasium."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "gymnasium==1.4.0", "msgpack==1.2.4", "numpy"], check=True)
    return folder


def run(clean: Path, *command: str) -> str:
    """Returns the output of a command of the environment, which must succeed."""
    done = execute(clean, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def execute(clean: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the environment with no other program in its PATH."""
    env = {"PATH": "/nonexistent", "HOME": str(clean), "TMPDIR": "/tmp"}
    return subprocess.run(
        [str(clean / "bin" / command[0]), *command[1:]],
        env=env,
        cwd=clean,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def transcript() -> list[tuple[str, str]]:
    """Returns the commands of docs/install.md with what each prints."""
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"<!-- begin: transcript.*?-->\n```text\n(.*?)```\n<!-- end", text, re.DOTALL)
    steps = [part.split("\n", 1) for part in re.split(r"^\$ ", found, flags=re.MULTILINE)[1:]]
    return [(command, output) for command, output in steps]


def same(text: str) -> str:
    """Returns what a command prints without what differs from build to build, and without spaces at ends of lines."""
    for pattern in VARIES:
        text = re.sub(pattern, pattern.replace("\\", r"\\"), text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_documented_installation(dist: Path, clean: Path) -> None:
    """From the wheel to the first step and on, with the commands and outputs of docs/install.md."""
    shutil.copy(own_wheel(dist), clean)
    env = {"PATH": str(clean / "bin"), "HOME": str(clean), "TMPDIR": "/tmp", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    steps = transcript()
    assert sum("pip install" in command for command, _ in steps) == 1
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command, output in steps:
        done = subprocess.run(
            ["/bin/sh", "-c", command], env=env, cwd=clean, capture_output=True, text=True, timeout=600, check=False
        )
        print(f"$ {command}\n{done.stdout}", end="")
        assert done.returncode == 0, done.stdout + done.stderr
        assert same(done.stdout) == same(output), f"{command} printed\n{done.stdout}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"the documented installation: {cpu:.1f} s of CPU")
    assert cpu <= CPU


def test_console_script(clean: Path) -> None:
    commands = run(clean, "kubernasium", "--help")
    for command in ("train", "eval", "compare", "board", "serve"):
        assert f"\n  {command} " in commands
    assert run(clean, "kubernasium", "--version").splitlines()[0].startswith("trainer version 0.1.0")
    out = run(clean, "kubernasium", "eval", "--env", "classic/CartPole-v1", "--baseline", "random", "--episodes", "2")
    assert "mean" in out


def test_engine_left_out(clean: Path) -> None:
    done = execute(clean, "kubernasium", "train", "--env", "classic/CartPole-v1", "--engine", "gorgonia")
    assert done.returncode == 1
    assert "built without engine gorgonia; fused gives the same networks" in done.stderr


def test_module_serves(clean: Path) -> None:
    command = [str(clean / "bin" / "python"), "-m", "kubernasium", "--listen", "127.0.0.1:0", "--exit-with-stdin"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PATH": "/nonexistent"}
    ) as server:
        assert '"url":"ws://127.0.0.1:' in server.stdout.readline()
        server.stdin.close()
        assert server.wait(60) == 0


def test_program_is_static(clean: Path) -> None:
    """The first program header of type PT_INTERP would name a loader of a libc."""
    (program,) = clean.glob("lib/python*/site-packages/kubernasium/bin/kubernasium")
    data = program.read_bytes()
    start, size, count = (int.from_bytes(data[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
    kinds = {int.from_bytes(data[start + i * size : start + i * size + 4], "little") for i in range(count)}
    assert 1 in kinds  # PT_LOAD
    assert 3 not in kinds  # PT_INTERP


def test_rebuilt_bytes(dist: Path) -> None:
    """A second build at another path, which --again names, has the same bytes."""
    again = os.environ.get("KUBERNASIUM_DIST_AGAIN")
    if not again:
        pytest.skip("set KUBERNASIUM_DIST_AGAIN to a folder with a second build: make test-dist does")
    for file in Path(again).iterdir():
        first = hashlib.sha256((dist / file.name).read_bytes()).hexdigest()
        assert hashlib.sha256(file.read_bytes()).hexdigest() == first, f"two builds of {file.name} differ"
