"""Figures that two pages show have one source."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_spec = importlib.util.spec_from_file_location("update_speed", ROOT / "tools" / "update_speed.py")
update_speed = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(update_speed)


def test_readme_has_the_figures_of_docs_wire() -> None:
    readme = update_speed.README.read_text(encoding="utf-8")
    source = update_speed.SOURCE.read_text(encoding="utf-8")
    assert readme == update_speed.updated(readme, source), "run clients/python/tools/update_speed.py"
    # A row by hand: N = 64 of CartPole.
    sixty_four = re.search(r"CartPole \| ours, make_vec, unix \| 64 \| ([\d,]+)", source)[1]
    assert f"| 64 | {sixty_four} |" in readme


def test_readme_has_no_other_speeds() -> None:
    """Speeds outside the generated table would age unseen."""
    readme = update_speed.README.read_text(encoding="utf-8")
    before, _, rest = readme.partition(update_speed.BEGIN)
    rest = rest.partition(update_speed.END)[2]
    assert not re.findall(r"[\d.,]+ (?:million )?steps/s|\d+ µs", before + rest)
