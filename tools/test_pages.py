"""What pages.py reads, on a small page."""

from __future__ import annotations

from pathlib import Path

import pages
import pytest

PAGE = """# Page
It waits 3.5 s, in one
case of four −2 s.

| policy | mean |
|---|--:|
| `a` | 1.25 [1.00, 1.50] |
| `b` | −0.30 |

| nodes | µs |
|---|--:|
| 64 | 2.0 |
"""


@pytest.fixture
def page(tmp_path: Path) -> str:
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return str(file)


def test_rows(page: str) -> None:
    part = {"table": "| policy |", "names": ["a", "b"], "rows": {"| `NAME`": ["NAME > mean"]}}
    assert pages.printed_figures(page, part) == [("a > mean", "1.25"), ("b > mean", "−0.30")]
    part["rows"] = {"| `a`": ["mean", "", "high"]}
    assert pages.printed_figures(page, part) == [("mean", "1.25"), ("high", "1.50")]
    with pytest.raises(SystemExit, match="0 rows that begin"):
        pages.printed_figures(page, {"table": "| policy |", "rows": {"| `c`": ["mean"]}})


def test_texts(page: str) -> None:
    part = {"texts": {"waits # s, in one case of four # s": ["wait", "least"]}}
    assert pages.printed_figures(page, part) == [("wait", "3.5"), ("least", "−2")]
    for phrase in ("waits # min", "# s"):
        with pytest.raises(SystemExit, match="texts"):
            pages.printed_figures(page, {"texts": {phrase: ["wait"]}})


def test_unmade(page: str) -> None:
    part = {"table": "| policy |", "rows": {"| `a`": ["mean"]}}
    assert pages.unmade(page, [part], {}) == ["| `b` | −0.30 |", "| 64 | 2.0 |"]
    assert pages.unmade(page, [part], {"| nodes |": "a benchmark"}) == ["| `b` | −0.30 |"]
    assert pages.unmade(page, [part, {"expect": {"mean": "−0.30"}, "line": "| `b`"}], {"| 64": "a benchmark"}) == []
    assert pages.unmade(page, [{"expect": {"mean": "0.31"}, "line": "| `b`"}, part], {"| 64": ""}) == [
        "| `b` | −0.30 |"
    ]


def test_unfounded(page: str, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(
        "| policy | mean |\n|---|---|\n| `a` | 1.5 |\n| `b` | 1.31 |\n\n| field | size |\n|---|---|\n| c | 9.9 |\n"
    )
    assert pages.unfounded(readme, [Path(page)]) == ["| `b` | 1.31 |"]


def test_undrawn(tmp_path: Path) -> None:
    for name in ("a.png", "board_b.png", "c.png"):
        (tmp_path / name).touch()
    elsewhere = {str(tmp_path / "board_"): "make board"}
    assert pages.undrawn(tmp_path, [{"writes": [str(tmp_path / "a.png")]}], elsewhere) == [str(tmp_path / "c.png")]
