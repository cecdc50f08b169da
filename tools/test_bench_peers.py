"""The statistics of bench_peers.py on cases worked out by hand."""

from __future__ import annotations

from typing import Any

import bench_peers
import pytest


def figures(rate: float) -> dict[str, float]:
    return {"rate": rate, "per_cpu": rate / 2, "return": 100.0, "start_s": 0.5}


def rounds(ours: list[float], theirs: list[float]) -> list[dict[str, dict[str, dict[str, float]]]]:
    return [
        {"CleanRL's defaults": {"ours": figures(a), "PureJaxRL": figures(b)}} for a, b in zip(ours, theirs, strict=True)
    ]


def test_interval() -> None:
    assert bench_peers.interval([300.0] * 7, [100.0] * 7) == (3.0, 3.0, 3.0)
    ratio, low, high = bench_peers.interval([100.0, 200.0, 300.0], [100.0, 100.0, 100.0])
    # The median of three draws from three values is the least with probability 7/27, and so is the greatest.
    assert (ratio, low, high) == (2.0, 1.0, 3.0)
    # Rounds are drawn as a whole: what slows both sides down in one cancels.
    assert bench_peers.interval([100.0, 200.0, 400.0], [50.0, 100.0, 200.0]) == (2.0, 2.0, 2.0)


def test_summary() -> None:
    (row,) = bench_peers.summary(rounds([100.0, 900.0, 200.0], [50.0, 60.0, 40.0]))
    assert (row["setting"], row["peer"]) == ("CleanRL's defaults", "PureJaxRL")
    assert row["rate"]["ours"] == 200.0
    assert row["rate"]["theirs"] == 50.0
    assert row["rate"]["ratio"][0] == 4.0
    assert row["per_cpu"]["ours"] == 100.0
    assert row["return"] == {"ours": 100.0, "theirs": 100.0}


@pytest.mark.parametrize(("now", "reported"), [(96.0, 0), (94.0, 2)])  # of wall and of CPU
def test_regressions(now: float, reported: int) -> None:
    before = bench_peers.summary(rounds([100.0] * 3, [50.0] * 3))
    found = bench_peers.regressions(bench_peers.summary(rounds([now] * 3, [50.0] * 3)), before)
    assert len(found) == reported
    if found:
        assert found[0] == "CleanRL's defaults, PureJaxRL, wall: 1.88 [1.88, 1.88], was 2.00"


def test_chance_is_no_regression() -> None:
    before = bench_peers.summary(rounds([100.0] * 3, [50.0] * 3))
    assert bench_peers.regressions(bench_peers.summary(rounds([80.0, 90.0, 100.0], [50.0] * 3)), before) == []


def test_markdown_names_missed_goals() -> None:
    def cells(ours: float) -> list[Any]:
        table = bench_peers.markdown(bench_peers.summary(rounds([ours] * 3, [50.0] * 3)), "two cores")
        return table.splitlines()[-1].split(" | ")

    assert cells(100.0)[8] == "≥ 3 (missed)"
    assert cells(150.0)[8] == "≥ 3"
    assert cells(150.0)[4] == "3.00 [3.00, 3.00]"
