"""What results.py plays."""

from __future__ import annotations

import results


def test_searches_play_in_place_of_models() -> None:
    models = ["a.safetensors", "b.safetensors"]
    assert results.with_models(["compare"], models) == ["compare", "--model", models[0], "--model", models[1]]
    searches = results.with_models(["compare"], models, "posterior:base=MODEL,k=3")
    assert searches == ["compare", "--search", "posterior:base=a.safetensors,k=3", "--search", "posterior:base=b.safetensors,k=3"]


def test_figures_are_means_over_searches() -> None:
    rows = [
        {"kind": "baseline", "mean": 9.0},
        {"kind": "search", "mean": 10.0, "difference": {"mean": 1.0}},
        {"kind": "search", "mean": 12.0, "difference": {"mean": 3.0}},
    ]
    assert results.figures(["compare"], {"rows": rows}, []) == {"mean": 11.0, "difference": 2.0}
