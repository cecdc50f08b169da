"""Builds everything of a release, as `make release-dry-run` and RELEASING.md do.

    python tools/release.py rehearse     # all files, signed by a key of the rehearsal; publishes nothing
    python tools/release.py publish      # the same from the tag of this commit, and a draft of its release page
    python tools/release.py rehearse --platform linux/amd64     # a short rehearsal

Programs and images come from make, wheels from tools/dist.py, archives, SBOMs, checksums and signature from GoReleaser.
What is signed lies in .cache/release/dist, and in .cache/release/files what goes elsewhere, too. `rehearse` gives
GoReleaser and its programs no network: their proxy is a closed port.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import dist as wheels

ROOT = wheels.ROOT
CACHE = ROOT / ".cache"
OUT = CACHE / "release"
FILES = OUT / "files"
TOOLS = CACHE / "tools"
KEY = CACHE / "release-key" / "cosign"
IMAGES = ("server", "trainer", "scheduler", "controlplane", "vpa-upstream")


def call(*command: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Runs a command, which must succeed, and prints its seconds of CPU."""
    start = os.times()
    subprocess.run([str(word) for word in command], cwd=cwd, check=True, env={**os.environ, **(env or {})})
    end = os.times()
    cpu = end.children_user + end.children_system - start.children_user - start.children_system
    print(f"== {' '.join(str(word) for word in command[:4])}: {cpu:.0f} s of CPU", flush=True)


def build_wheels(platforms: list[str]) -> None:
    """Builds the wheels and the sdist into the folder of files."""
    call(sys.executable, "tools/dist.py", FILES, "--kwok", *(f"--platform={p}" for p in platforms))


def build_images(date: str, arches: list[str]) -> None:
    """Writes an OCI archive of each image, for all these architectures of Linux."""
    folders = {arch: OUT / "images" / arch for arch in arches}
    for arch, folder in folders.items():
        call("make", "images", f"BIN={OUT / 'bin' / arch}", f"IMAGES={folder}", env={"GOARCH": arch, "GOOS": "linux"})
    tool = OUT / "ociimage"
    call(wheels.GO, "-C", "tools/ociimage", "build", "-o", tool, ".")
    labels = {
        "org.opencontainers.image.version": wheels.release(),
        "org.opencontainers.image.revision": wheels.commit_and_date()[0],
        "org.opencontainers.image.source": "https://github.com/kubernasium/kubernasium",
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    flags = [word for key, value in labels.items() for word in ("-label", f"{key}={value}")]
    for name in IMAGES:
        out = FILES / f"kubernasium-{name}_{wheels.release()}_oci.tar"
        call(tool, "-o", out, "-date", date, *flags, *(f"linux/{a}={folders[a] / name}" for a in arches))


def build_chart() -> None:
    """Packs the Helm chart."""
    call("make", "bin/helm")
    call("bin/helm", "package", "deploy/helm/kubernasium", "--destination", FILES)


def rehearsal_key() -> dict[str, str]:
    """Makes the key of rehearsals, unless it is there, and returns the variables that name it."""
    KEY.parent.mkdir(parents=True, exist_ok=True)
    env = {"COSIGN_PASSWORD": "rehearsal"}
    if not KEY.with_suffix(".pub").exists():
        call(TOOLS / "cosign", "generate-key-pair", f"--output-key-prefix={KEY}", env=env)
    return {**env, "COSIGN_KEY": str(KEY.with_suffix(".key"))}


def configuration(platforms: list[str]) -> Path:
    """Returns GoReleaser's configuration, for a short rehearsal one with fewer platforms."""
    source = ROOT / ".goreleaser.yaml"
    if platforms == wheels.PLATFORMS:
        return source
    text = source.read_text(encoding="utf-8")
    for key, part in (("goos", 0), ("goarch", 1)):
        names = sorted({platform.split("/")[part] for platform in platforms})
        text, count = re.subn(rf"^    {key}: \[.*\]$", f"    {key}: [{', '.join(names)}]", text, flags=re.MULTILINE)
        assert count == 1, f"{source} has {count} lines {key}"
    short = OUT / "goreleaser.yaml"
    short.write_text(text, encoding="utf-8")
    return short


def goreleaser(date: str, rehearse: bool, platforms: list[str]) -> None:
    """Runs GoReleaser with the variables that .goreleaser.yaml lists."""
    env = {
        "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}",
        "RELEASE_NUMBER": wheels.release(),
        "RELEASE_LDFLAGS": wheels.ldflags(),
        "RELEASE_DATE": date,
        "SOURCE_DATE_EPOCH": wheels.git("log", "-1", "--format=%ct"),
        "RELEASE_SBOM": str(ROOT / "tools" / "sbom.py"),
    }
    flags = ["release", "--clean", "--parallelism=1", f"--config={configuration(platforms)}"]
    if rehearse:
        closed = "http://127.0.0.1:9"  # the port of discard, on which nothing listens
        env |= {"HTTP_PROXY": closed, "HTTPS_PROXY": closed, "GOPROXY": "off", **rehearsal_key()}
        flags += ["--snapshot", "--skip=publish"]
    call(TOOLS / "goreleaser", *flags, env=env)
    for file in ("SHA256SUMS", "SHA256SUMS.sigstore.json"):
        assert (OUT / "dist" / file).is_file(), f"GoReleaser wrote no {file}"


def main() -> None:
    """Runs the command line."""
    os.environ["TZ"] = "UTC"  # for dates of git
    time.tzset()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rehearse", "publish"])
    parser.add_argument("--platform", action="append", choices=wheels.PLATFORMS)
    given = parser.parse_args()
    rehearse, platforms = given.what == "rehearse", given.platform or wheels.PLATFORMS
    if not rehearse and given.platform:
        parser.error("a release has all platforms")
    if not rehearse and not os.environ.get("COSIGN_KEY"):
        parser.error("set COSIGN_KEY and COSIGN_PASSWORD to the key that signs releases")
    date = wheels.commit_and_date()[1]
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir(parents=True)
    build_wheels(platforms)
    build_images(date, [p.split("/")[1] for p in platforms if p.startswith("linux/")])
    build_chart()
    notices = wheels.notices(".", "THIRD_PARTY_NOTICES.txt", "./server", "./trainer", tags=wheels.TAGS)
    shutil.copyfile(notices, OUT / "THIRD_PARTY_NOTICES.txt")
    goreleaser(date, rehearse, platforms)


if __name__ == "__main__":
    main()
