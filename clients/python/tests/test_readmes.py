"""The blocks of Python in the repository's documents, run as they stand.

RECIPES.md and the tutorials have runners of their own: test_recipes.py and `make test-docs`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent
ELSEWHERE = ("clients/python/RECIPES.md", "docs/tutorials/")
LEFT_OUT = {"bin", "dist", "logs", "shared"}


def pages() -> list[Path]:
    """Returns the documents. It enters no folder that others may change meanwhile: `rglob` fails where one vanishes."""
    found: list[Path] = []
    for folder, folders, files in os.walk(REPOSITORY):
        left_out = LEFT_OUT if Path(folder) == REPOSITORY else set()
        folders[:] = [name for name in folders if not name.startswith(".") and name not in left_out]
        found += [Path(folder, name) for name in files if name.endswith(".md") and not name.startswith(".")]
    return sorted(found)


def blocks() -> dict[str, str]:
    """Returns the blocks by document and line."""
    found = {}
    for page in pages():
        name = page.relative_to(REPOSITORY).as_posix()
        if name.startswith(ELSEWHERE):
            continue
        text = page.read_text(encoding="utf-8")
        for m in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            found[f"{name}:{1 + text.count(chr(10), 0, m.start())}"] = m[1]
    return found


BLOCKS = blocks()


def test_both_readmes_have_a_block() -> None:
    assert {name.split(":")[0] for name in BLOCKS} >= {"README.md", "clients/python/README.md"}


@pytest.mark.parametrize("name", BLOCKS)
def test_block(name: str) -> None:
    """A step has given a reward, which is a cost in these environments."""
    code = BLOCKS[name] + "\nassert reward < 0\nprint('ran', env.spec.id)\n"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran k8s/GangWindow-v0\n"
