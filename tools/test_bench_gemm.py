"""The table of bench_gemm.py, and its calls of other libraries, on small cases."""

from __future__ import annotations

import tempfile

import bench_gemm
import pytest
from bench_gemm import Layer, Size


def test_table() -> None:
    """Ratios are to the better library, and 0.85 of it is enough."""
    size = Size(64, 4)
    assert size.flops() == 2 * 64 * 4 * 64
    assert size.bytes() == 4 * (64 * 4 + 4 * 64 + 64 * 64)
    rates = {
        (size, "forward"): {"ours": 85.0, "A": 100.0, "B": 50.0},
        (size, "weight"): {"ours": 84.0, "A": 50.0, "B": 100.0},
    }
    lines, below = bench_gemm.table(rates, {size: 170.0})
    assert lines[2:] == [
        "| 64 | 4 | forward | 85.0 | 100.0 | 50.0 | 0.85 | 170.0 | 0.50 |",
        "| 64 | 4 | weight | 84.0 | 50.0 | 100.0 | 0.84 | 170.0 | 0.49 |",
    ]
    assert below == 1


def test_libraries() -> None:
    """Each library computes the products that NumPy computes, and a wrong one is found."""
    with tempfile.TemporaryDirectory() as folder:
        lib = bench_gemm.compiled(folder)
        for sgemm in bench_gemm.libraries().values():
            layer = Layer(Size(5, 3))
            layer.check(layer.timed(lib, sgemm))
            ta, tb, *rest = layer.calls["input"]
            layer.calls["input"] = (tb, ta, *rest)
            with pytest.raises(AssertionError, match="input"):
                layer.check(layer.timed(lib, sgemm))
