"""The statistics of transfer.py on cases worked out by hand, and its matrix on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
import transfer


def test_quantile() -> None:
    # Tables of Student's t, 97.5 %.
    for freedom, want in {9: 2.262, 19: 2.093, 99: 1.984}.items():
        assert transfer.quantile(freedom) == pytest.approx(want, abs=6e-4)


def test_paired() -> None:
    # Ten differences, five of 1 and five of 3: mean 2, variance 10/9, standard error 1/3.
    mean, half = transfer.paired([11.0, 13.0] * 5, [10.0] * 10)
    assert mean == 2
    assert half == pytest.approx(2.262 / 3, abs=6e-4)
    with pytest.raises(ValueError, match="argument 2 is longer"):
        transfer.paired([1.0], [1.0, 2.0])


def test_matrix(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text(
        "chosen_on,policy,played_on,at_100,difference_100,half_100,at_130,difference_130,half_130\n"
        ",FGD,a,90.00,-1.00,0.50,91.00,-0.50,0.25\n,WeightedFGD,a,91.00,+0.00,0.00,91.50,+0.00,0.00\n"
        'a,"WeightedFGD:pressure=1",a,92.00,+1.00,0.50,92.00,+0.50,0.25\n'
        ",FGD,b,80.00,-1.00,0.50,81.00,-0.50,0.25\n,WeightedFGD,b,81.00,+0.00,0.00,81.50,+0.00,0.00\n"
        'a,"WeightedFGD:pressure=1",b,82.00,+1.00,0.50,82.00,+0.50,0.25\n'
    )
    assert transfer.matrix(file, "130") == [
        "| at 130 % | a | b |",
        "|---|---|---|",
        "| `FGD` | 91.00 (−0.50 ± 0.25) | 81.00 (−0.50 ± 0.25) |",
        "| `WeightedFGD` | 91.50 | 81.50 |",
        "| weights, a | *92.00 (+0.50 ± 0.25)* | 82.00 (+0.50 ± 0.25) |",
    ]


def test_options() -> None:
    # A model brings the pods of its training along unless the generator's column takes them away.
    said = [a.partition(":")[0] for a in transfer.options("default", Path("openb"))[1::2]]
    assert [a.partition(":")[::2] for a in transfer.options("generator", Path())[1::2]] == [
        ("nodes", ""),
        ("pods", "[]"),
    ]
    assert said == ["nodes", "pods"]


@pytest.mark.parametrize("at", ["100", "130"])
def test_page(at: str) -> None:
    results = Path(__file__).parent.parent / "docs/results"
    lines = transfer.matrix(results / "gpu_transfer.csv", at)
    assert len(lines) > 8
    assert "\n".join(lines) + "\n" in (results / "gpu.md").read_text()
