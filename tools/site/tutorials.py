"""Runs the tutorials: every block of docs/tutorials, in order, as a reader would.

- A block of sh is run by bash, in the repository's root at first. Folder and exported variables last to the end of
  the page, and what it starts in the background is stopped there.
- A block whose first line is a comment with the name of a file, such as `# agent.py` or `// main.go`, is written to
  that file.
- Any other block of python is a cell of a notebook: all cells of a page share one interpreter.
- A block of text is the output of the block before it. `…` stands for anything in a line, and alone for any lines.

Usage: python tools/site/tutorials.py [--only NAME]; python has the package kubernasium
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs/tutorials"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(?:#|//) ([\w./-]+\.\w+)\n")
LIMIT = 600  # seconds for a block: more than ten times what the slowest takes
CELLS = """
import json, sys, traceback
space = {"__name__": "__main__"}
for line in sys.stdin:
    number, code = json.loads(line)
    try:
        exec(compile(code, f"cell {number}", "exec"), space)
        end = "done"
    except BaseException:
        traceback.print_exc()
        end = "failed"
    sys.stdout.flush()
    print(f"\\0{end}", flush=True)
"""


class TutorialError(Exception):
    """A block that failed or printed something else than its page says."""


def blocks(text: str) -> list[tuple[str, str, int]]:
    """Returns language, content and line of each block of a page."""
    return [(m[1], m[2], 1 + text.count("\n", 0, m.start())) for m in FENCE.finditer(text)]


def matches(expected: str, output: str) -> bool:
    """Reports whether an output is what a page shows."""
    lines = [line.rstrip() for line in expected.rstrip().split("\n")]
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else r"[^\n]*".join(re.escape(p) for p in line.split("…")) + "[ \t]*\n"
        for line in lines
    )
    return re.fullmatch(pattern, output.rstrip().lstrip("\n") + "\n") is not None


class Run:
    """A page under way: its folder, its variables, its processes."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        """Starts in the repository's root."""
        self.state = folder / ".state"
        self.state.write_text("", encoding="utf-8")
        self.folder, self.cwd, self.env = folder, ROOT, env
        self.groups: list[int] = []
        self.cells: subprocess.Popen[str] | None = None

    def sh(self, code: str, number: int) -> str:
        """Runs a block of shell and returns its output."""
        out = self.folder / f".out-{number}"
        script = (
            f"set -euo pipefail\nsource {self.state}\ntrap 'rc=$?; export -p >{self.state}; pwd >{self.state}.cwd; exit $rc' EXIT\n"
            + code
        )
        with out.open("w", encoding="utf-8") as file:
            p = subprocess.Popen(
                ["bash", "-c", script], cwd=self.cwd, env=self.env, stdin=subprocess.DEVNULL, stdout=file,
                stderr=(self.folder / ".err").open("w"), start_new_session=True,
            )  # fmt: skip
            self.groups.append(p.pid)
            rc = p.wait(timeout=LIMIT)
        text = out.read_text(encoding="utf-8")
        if rc:
            raise TutorialError(
                f"exit status {rc}\n{text[-3000:]}{(self.folder / '.err').read_text(encoding='utf-8')[-3000:]}"
            )
        self.cwd = Path((self.folder / ".state.cwd").read_text(encoding="utf-8").rstrip("\n"))
        return text

    def cell(self, code: str, number: int) -> str:
        """Runs a cell of the page's notebook and returns its output."""
        if self.cells is None:
            self.cells = subprocess.Popen(
                ["bash", "-c", f"source {self.state}; exec python -W ignore -c {json_quote(CELLS)}"], cwd=self.cwd, env=self.env, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(self.folder / ".err").open("w"), start_new_session=True,
            )  # fmt: skip
            self.groups.append(self.cells.pid)
        assert self.cells.stdin
        assert self.cells.stdout
        self.cells.stdin.write(json.dumps([number, code]) + "\n")
        self.cells.stdin.flush()
        text = ""
        for line in self.cells.stdout:
            if line == "\0done\n":
                return text
            if line == "\0failed\n":
                break
            text += line
        raise TutorialError(text[-3000:] + (self.folder / ".err").read_text(encoding="utf-8")[-3000:])

    def close(self) -> None:
        """Ends what the page started."""
        for sig in (signal.SIGTERM, signal.SIGKILL):
            for group in self.groups:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, sig)
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(["sleep", "1"], check=False)


def json_quote(text: str) -> str:
    """Quotes a text for bash."""
    return "'" + text.replace("'", "'\\''") + "'"


def play(page: Path, env: dict[str, str]) -> int:
    """Runs a page and returns how many blocks it has."""
    found = blocks(page.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="tutorial-") as temp:
        folder = Path(temp)
        (folder / "tmp").mkdir()
        run = Run(folder, {**env, "TMPDIR": str(folder / "tmp"), "HOME": str(folder)})
        output: str | None = None
        try:
            for number, (language, content, line) in enumerate(found):
                where = f"{page.relative_to(ROOT)}:{line}"
                try:
                    name = FILE.match(content)
                    if language == "text":
                        if output is None or not matches(content, output):
                            raise TutorialError(f"the page shows\n{content}\nand the output is\n{output}")
                    elif name:
                        (run.cwd / name[1]).parent.mkdir(parents=True, exist_ok=True)
                        (run.cwd / name[1]).write_text(content, encoding="utf-8")
                        output = None
                    elif language == "sh":
                        output = run.sh(content, number)
                    elif language == "python":
                        output = run.cell(content, number)
                    else:
                        raise TutorialError(f"a block of {language} names no file")
                except TutorialError as e:
                    raise TutorialError(f"{where}: {e}") from None
        finally:
            run.close()
    return len(found)


def environment() -> dict[str, str]:
    """Returns the variables of the blocks: this interpreter's folder first, Go's caches where they are."""
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "LC_ALL": "C.UTF-8",
    }
    for name in ("GOPATH", "GOCACHE", "GOMODCACHE"):
        env[name] = subprocess.run(["go", "env", name], capture_output=True, text=True, check=True).stdout.strip()
    for name in [n for n in env if n.startswith("KUBERNASIUM_")]:
        del env[name]
    return env


def main() -> None:
    """Runs the pages and prints what each took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="name of a page")
    args = parser.parse_args()
    pages = [p for p in sorted(FOLDER.glob("*.md")) if p.name != "README.md" and args.only in (None, p.stem)]
    if not pages:
        sys.exit(f"no tutorial {args.only}")
    failed = False
    for page in pages:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            n = play(page, environment())
        except (TutorialError, subprocess.TimeoutExpired) as e:
            print(f"{page.stem}: {e}", flush=True)
            failed = True
            continue
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{page.stem}: {n} blocks, {seconds:.0f} s of CPU", flush=True)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
