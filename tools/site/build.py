"""Builds the site of documents below .cache/site/VERSION from the repository's Markdown and what tools/site generates.

Usage: python tools/site/build.py --version VERSION --generated FOLDER [--out .cache/site], by make docs
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
REPOSITORY = "https://github.com/kubernasium/kubernasium"
API = ROOT / "clients/python/src"

# The menu: captions, and patterns of staged pages. Sphinx reports a page that none of them finds.
MENU = {
    "Tutorials": ["docs/tutorials/*"],
    "Use": ["docs/training", "docs/board", "docs/learning", "clients/python/README", "clients/python/RECIPES", "docs/compose"],
    "Environments": ["reference/environments/index", "envs/**"],
    "Agents": ["reference/algorithms/index", "agents/**", "models/**"],
    "Results": ["docs/results/README", "docs/results/*", "docs/benchmarks", "docs/wire"],
    "Kubernetes": [
        "docs/kwok", "docs/scheduler", "docs/shadow", "docs/deploy", "docs/vpa-recommender", "docs/gang-real",
        "docs/cluster-trace", "docs/kwok-speed", "deploy/**", "kwok/**", "clients/python-kwok/README",
    ],
    "Reference": ["reference/commands/index", "reference/python/index", "reference/go", "server/PROTOCOL"],
    "Project": ["docs/architecture", "CONTRIBUTING", "RELEASING", "docs/*", "SECURITY", "CHANGELOG"],
}  # fmt: skip

INLINE = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
SPAN = re.compile(r"(`+)(?:(?!\1).)+?\1")


def main() -> None:
    """Stages the pages, runs Sphinx, and writes what all versions share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--generated", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=ROOT / ".cache/site")
    args = parser.parse_args()
    if not re.fullmatch(r"[\w.+-]+", args.version) or args.version in ("latest", ".", ".."):
        sys.exit(f"site: {args.version!r} is no name for a version's folder")
    stage = args.out.parent / "site-stage" / args.version
    Stage(stage, args.version, args.generated).fill()
    target = args.out / args.version
    shutil.rmtree(target, ignore_errors=True)
    date = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    env = {
        **os.environ,
        "SITE_VERSION": args.version,
        "SITE_PYTHON": str(API),
        "SOURCE_DATE_EPOCH": date.strip() or "0",
    }
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", str(stage / ".doctrees"),
         str(stage), str(target)],
        env=env, check=True,
    )  # fmt: skip
    (target / ".buildinfo").unlink()
    (target / "objects.inv").unlink()
    pages = sorted(str(p.relative_to(target)) for p in target.rglob("*.html") if p.name != "genindex.html")
    (target / "pages.json").write_text(json.dumps(pages, indent=0) + "\n", encoding="utf-8")
    write_versions(args.out)
    print(f"site: {len(pages)} pages in {target}")


class Stage:
    """A folder of Markdown for Sphinx, with the paths of the repository."""

    def __init__(self, folder: Path, version: str, generated: Path) -> None:
        """Finds the repository's files."""
        self.folder = folder
        self.ref = version if re.match(r"v\d", version) else "main"
        self.generated = generated
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        self.files = {f for f in listed.stdout.splitlines() if (ROOT / f).is_file()}
        self.folders = {str(p) for f in self.files for p in Path(f).parents}
        self.pages = {f for f in self.files if f.endswith(".md")}

    def fill(self) -> None:
        """Writes every page."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(HERE / "theme/static", self.folder / "_static")
        (self.folder / "_templates").mkdir()
        shutil.copy(HERE / "theme/versions.html", self.folder / "_templates")
        shutil.copy(HERE / "conf.py", self.folder)
        for page in sorted(self.pages):
            text = self.rewrite(page, (ROOT / page).read_text(encoding="utf-8"))
            self.write(staged(page), text + (menu() if page == "README.md" else ""))
        for path in sorted(self.generated.rglob("*")):
            name = "reference/" + path.relative_to(self.generated).as_posix()
            if path.suffix == ".md":
                self.write(name, self.rewrite(name, path.read_text(encoding="utf-8")))
            elif path.is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, self.folder / name)
        self.python_api()

    def write(self, name: str, text: str) -> None:
        """Writes a page."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def rewrite(self, page: str, text: str) -> str:
        """Returns a page whose relative links lead to pages of the site, or to the repository's address."""
        lines, fence = [], ""
        for line in text.split("\n"):
            mark = line.strip()
            if fence:
                fence = "" if mark.startswith(fence) and not mark.strip(fence[0]) else fence
            elif mark.startswith(("```", "~~~")):
                fence = mark[: len(mark) - len(mark.lstrip(mark[0]))]
            elif not line.startswith("    ") or mark.startswith(("-", "*", "|", "[")):
                line = self.rewrite_line(page, line)
            lines.append(line)
        return "\n".join(lines)

    def rewrite_line(self, page: str, line: str) -> str:
        """Rewrites the links of a line, but not within code."""
        spans: list[str] = []

        def hide(m: re.Match[str]) -> str:
            spans.append(m[0])
            return f"\0{len(spans) - 1}\0"

        line = INLINE.sub(lambda m: m[1] + self.target(page, m[2], m[1].startswith("!")) + m[3], SPAN.sub(hide, line))
        return re.sub("\0(\\d+)\0", lambda m: spans[int(m[1])], line)

    def target(self, page: str, url: str, image: bool) -> str:
        """Returns the address of a link of a page."""
        if re.match(r"[a-z]+:", url) or url.startswith("#"):
            return url
        path, _, anchor = url.partition("#")
        anchor = anchor and "#" + anchor
        if page.startswith("reference/") and not path.startswith("/"):
            return url  # between generated pages
        path = posixpath.normpath(path[1:] if path.startswith("/") else posixpath.join(posixpath.dirname(page), path))
        if f"{path}/README.md" in self.pages:
            path += "/README.md"
        if path in self.pages:
            return posixpath.relpath(staged(path), posixpath.dirname(staged(page)) or ".") + anchor
        if image and path in self.files:
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.folder / path)
            return posixpath.relpath(path, posixpath.dirname(staged(page)) or ".")
        if path in self.files or path in self.folders:
            return f"{REPOSITORY}/{'blob' if path in self.files else 'tree'}/{self.ref}/{path}{anchor}"
        sys.exit(f"site: {page}: no file {path}")

    def python_api(self) -> None:
        """Writes a page for each public module of the Python package."""
        names = ["kubernasium"]
        for m in pkgutil.walk_packages([str(API / "kubernasium")], "kubernasium."):
            if not any(part.startswith("_") for part in m.name.split(".")):
                names.append(m.name)
        for name in names:
            options = "" if name != "kubernasium" else "   :no-members:\n"
            self.write(
                f"reference/python/{name}.md", f"# {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n{options}```\n"
            )
        self.write(
            "reference/python/index.md",
            "# Python API\n\nMade from the docstrings of [the Python package](../../clients/python/README.md).\n\n"
            "```{toctree}\n:titlesonly:\n\n" + "\n".join(names) + "\n```\n",
        )


def staged(page: str) -> str:
    """Returns the path of a page in the stage: README.md is the first page."""
    return "index.md" if page == "README.md" else page


def menu() -> str:
    """Returns the trees of pages for the menu."""
    text = ""
    for caption, patterns in MENU.items():
        text += (
            f"\n```{{toctree}}\n:hidden:\n:glob:\n:titlesonly:\n:caption: {caption}\n\n"
            + "\n".join(patterns)
            + "\n```\n"
        )
    return text


def order(version: str) -> tuple[bool, list[int], str]:
    """Sorts versions: releases by their numbers, above all others."""
    numbers = re.fullmatch(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return bool(numbers), [int(n) for n in numbers.groups()] if numbers else [], version


def redirect(target: str) -> str:
    """Returns a page that leads to another and keeps the anchor."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Kubernasium</title>\n'
        f'<script>location.replace("{target}" + location.hash)</script>\n'
        f'<meta http-equiv="refresh" content="1; url={target}"></head>\n'
        f'<body><a href="{target}">Kubernasium</a></body></html>\n'
    )


def write_versions(out: Path) -> None:
    """Writes the list of versions, the first page, and the pages of latest, which lead to the latest version."""
    found = {p.parent.name: json.loads(p.read_text(encoding="utf-8")) for p in out.glob("*/pages.json")}
    versions = sorted(found, key=order, reverse=True)
    latest = versions[0]
    entries = [{"version": v, "latest": v == latest, "pages": found[v]} for v in versions]
    (out / "versions.json").write_text(
        json.dumps([{k: e[k] for k in ("version", "latest")} for e in entries], indent=2) + "\n", encoding="utf-8"
    )
    (out / "versions.js").write_text(f"window.kubernasiumVersions = {json.dumps(entries)};\n", encoding="utf-8")
    (out / "index.html").write_text(redirect(f"{latest}/index.html"), encoding="utf-8")
    shutil.rmtree(out / "latest", ignore_errors=True)
    for page in found[latest]:
        path = out / "latest" / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(redirect("../" * (page.count("/") + 1) + f"{latest}/{page}"), encoding="utf-8")


if __name__ == "__main__":
    main()
