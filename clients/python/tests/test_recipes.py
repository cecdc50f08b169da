"""Each block of RECIPES.md, run as it stands with the real library; `make test-recipes` installs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "RECIPES.md").read_text(encoding="utf-8")
LIBRARIES = [
    "Stable-Baselines3", "sb3-contrib", "RL Zoo", "CleanRL", "Tianshou", "TorchRL", "RLlib", "Ray Tune", "Minari",
    "skrl", "d3rlpy", "imitation", "Half vectors", "asyncio",
]  # fmt: skip


def blocks() -> dict[str, str]:
    """Returns the page's Python blocks by their headings, a further one of a heading with its number."""
    found: dict[str, str] = {}
    for section in PAGE.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        for i, block in enumerate(re.findall(r"```python\n(.*?)```", section, re.DOTALL)):
            found[title if i == 0 else f"{title} {i + 1}"] = block
    return found


def test_every_library_has_a_block() -> None:
    assert [name for name in blocks() if not name[-1].isdigit() or name == "Stable-Baselines3"] == LIBRARIES
    assert "RLlib 2" in blocks()


def test_versions_are_those_that_run_here() -> None:
    table = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \|", PAGE, re.MULTILINE)
    assert len(table) == 10
    assert table == [(name, metadata.version(name)) for name, _ in table]


@pytest.mark.parametrize("name", blocks())
def test_recipe(name: str, tmp_path: Path) -> None:
    code = f"EXAMPLES = {str(ROOT / 'examples')!r}\n" + blocks()[name]
    (tmp_path / "recipe.py").write_text(code, encoding="utf-8")
    # Libraries keep datasets, tokens and logs in the home folder.
    env = {**os.environ, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    env["RAY_worker_niceness"] = "0"  # by default 15: Ray's workers starve where tests keep all cores busy
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "recipe.py"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    returns = [float(x) for x in re.findall(r"return +(-?[\d.]+)", done.stdout)]
    assert returns, f"no return in\n{done.stdout}"
    assert all(-1000 < x < 0 for x in returns)  # rewards of these environments are costs; nan is refused too
