"""Measures our matrix products beside OpenBLAS's and MKL's, and what one core can do at most.

    python tools/bench_gemm.py --ours .cache/fused.test --markdown .cache/gemm.md

The products are those of a dense layer of 64 results: forward, the weight's gradient and the input's gradient. Ours
are models/fused's BenchmarkProducts, with the bias, in the tiles and shards of a network. The others are sgemm of
NumPy's OpenBLAS and of torch's MKL, called from C with one thread. All run on one core, size by size in turn; each
figure is the median of the rounds.

The roof is the least of two rates: the core's fused multiply-adds from registers, and the product's least traffic at
the speed at which the core reads an array of that size.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # before they are loaded

import numpy as np
import torch

ROWS, INNER, OUT = (64, 256, 2048, 16384), (4, 64, 81, 512), 64
PRODUCTS = ("forward", "weight", "input")
GOAL = 0.85
SAMPLE = 0.02  # seconds
HERE = Path(__file__).parent


class Size(NamedTuple):
    """A layer's rows and inputs."""

    rows: int
    inner: int

    def flops(self) -> int:
        """Operations of each product."""
        return 2 * self.rows * self.inner * OUT

    def bytes(self) -> int:
        """Size of inputs, weight and results, each of which a product reads or writes once."""
        return 4 * (self.rows * self.inner + self.inner * OUT + self.rows * OUT)


def compiled(folder: str) -> Any:
    """Compiles roofline.c for this machine and loads it."""
    library = Path(folder) / "roofline.so"
    command = ["gcc", "-O2", "-march=native", "-shared", "-fPIC", "-o", library, HERE / "roofline.c"]
    subprocess.run(command, check=True)
    lib = ctypes.CDLL(str(library))
    for f in (lib.fma_peak, lib.read_rate, lib.sgemm_time):
        f.restype = ctypes.c_double
    return lib


def libraries() -> dict[str, Any]:
    """Returns Fortran's sgemm of each library."""
    openblas = next(Path(np.__file__).parent.parent.glob("numpy.libs/libscipy_openblas*"))
    mkl = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    return {"OpenBLAS": ctypes.CDLL(str(openblas)).scipy_sgemm_64_, "MKL": ctypes.CDLL(str(mkl)).sgemm_}


class Layer:
    """The arrays of a dense layer, and its products by another library."""

    def __init__(self, size: Size) -> None:
        """Draws the inputs."""
        rng = np.random.default_rng(1)

        def array(rows: int, cols: int) -> np.ndarray:
            return rng.standard_normal((rows, cols), np.float32)

        self.size = size
        self.x, self.w, self.d = array(size.rows, size.inner), array(size.inner, OUT), array(size.rows, OUT)
        self.y, self.g, self.dx = np.empty_like(self.d), np.empty_like(self.w), np.empty_like(self.x)
        # Fortran sees a row-major array as its transpose: transposed or not, m, n, k, a and b, and the result.
        rows, inner = size
        self.calls = {
            "forward": (b"N", b"N", OUT, rows, inner, self.w, self.x, self.y),
            "weight": (b"N", b"T", OUT, inner, rows, self.d, self.x, self.g),
            "input": (b"T", b"N", inner, rows, OUT, self.w, self.d, self.dx),
        }

    def check(self, timed: Callable[..., float]) -> None:
        """Fails if a product is not NumPy's."""
        wants = {"forward": self.x @ self.w, "weight": self.x.T @ self.d, "input": self.d @ self.w.T}
        for product, want in wants.items():
            got = self.calls[product][-1]
            got.fill(np.nan)
            timed(product, 1)
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3, err_msg=f"{product} of {self.size}")

    def timed(self, lib: Any, sgemm: Any) -> Callable[[str, int], float]:
        """Returns a function that times calls of a product."""

        def run(product: str, calls: int) -> float:
            ta, tb, m, n, k, a, b, c = self.calls[product]
            arrays: list[Any] = []
            for x in (a, b, c):
                arrays += [ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(x.shape[1])]
            shape = [ctypes.c_int64(i) for i in (m, n, k)]
            seconds: float = lib.sgemm_time(sgemm, calls, ctypes.c_char(ta), ctypes.c_char(tb), *shape, *arrays)
            return seconds

        return run


def theirs(layer: Layer, lib: Any, sgemm: Any, check: bool) -> dict[str, float]:
    """Returns the GFLOP/s of a library's products."""
    run, rates = layer.timed(lib, sgemm), {}
    if check:
        layer.check(run)
    for product in PRODUCTS:
        run(product, 1)
        calls = max(1, int(SAMPLE / run(product, 3)))
        rates[product] = layer.size.flops() / run(product, calls) * 1e-9
    return rates


@contextlib.contextmanager
def realtime(wanted: bool) -> Iterator[None]:
    """Gives this process the real-time class meanwhile. It must not wait for children in that class."""
    if wanted:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def ours(
    command: list[str | Path], kernels: str, size: Size, sample: str = f"{SAMPLE}s"
) -> dict[str, dict[str, float]]:
    """Returns the GFLOP/s of our products by the kernels' names."""
    pattern = f"^BenchmarkProducts$/^{kernels}$/^rows={size.rows}$/^in={size.inner}$"
    command = [*command, "-test.run", "^$", "-test.bench", pattern, "-test.benchtime", sample]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rates: dict[str, dict[str, float]] = {}
    line = r"^BenchmarkProducts/(\w+)/rows=\d+/in=\d+/(\w+)\S*\s.*?(\S+) GFLOP/s"
    for name, product, rate in re.findall(line, text, re.MULTILINE):
        rates.setdefault(name, {})[product] = float(rate)
    return rates


def table(rates: dict[tuple[Size, str], dict[str, float]], roofs: dict[Size, float]) -> tuple[list[str], int]:
    """Returns the lines of the table, and how many of ours are below the goal."""
    peers = [name for name in next(iter(rates.values())) if name != "ours"]
    lines = [
        "| rows | inputs | product | ours | " + " | ".join(peers) + " | ours / better | roof | ours / roof |",
        "|--:|--:|---|" + "--:|" * (len(peers) + 4),
    ]
    below = 0
    for (size, product), r in rates.items():
        ratio = r["ours"] / max(r[p] for p in peers)
        below += ratio < GOAL
        cells = [f"{size.rows:,}", str(size.inner), product, f"{r['ours']:.1f}"]
        cells += [f"{r[p]:.1f}" for p in peers]
        cells += [f"{ratio:.2f}", f"{roofs[size]:.1f}", f"{r['ours'] / roofs[size]:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines, below


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", type=Path, required=True, help="test binary of models/fused")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kernels", default="", help="avx512, avx2 or gonum; default: the fastest of this machine")
    parser.add_argument("--realtime", action="store_true", help="measure in the real-time class, beside other programs")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    sizes = [Size(r, i) for r in ROWS for i in INNER]
    kernels = args.kernels or next(iter(ours([args.ours], ".*", sizes[0], "1x")))
    command = [*(["chrt", "-f", "1"] if args.realtime else []), args.ours]
    rates: dict[tuple[Size, str], dict[str, list[float]]] = {(s, p): {} for s in sizes for p in PRODUCTS}
    peaks: list[float] = []
    reads: dict[Size, list[float]] = {s: [] for s in sizes}
    peers = libraries()
    with tempfile.TemporaryDirectory() as folder:
        lib = compiled(folder)
        memory = np.ones(max(s.bytes() for s in sizes) // 4, np.float32)
        for i in range(args.rounds):
            for size in sizes:
                layer = Layer(size)
                for name in ["ours", *peers][:: 1 if i % 2 == 0 else -1]:
                    if name == "ours":
                        measured = ours(command, kernels, size)[kernels]
                    else:
                        with realtime(args.realtime):
                            measured = theirs(layer, lib, peers[name], check=i == 0)
                    for product, rate in measured.items():
                        rates[size, product].setdefault(name, []).append(rate)
                with realtime(args.realtime):
                    peaks.append(lib.fma_peak())
                    reads[size].append(lib.read_rate(ctypes.c_void_p(memory.ctypes.data), ctypes.c_long(size.bytes())))
    peak = statistics.median(peaks)
    roofs = {s: min(peak, s.flops() / s.bytes() * statistics.median(r)) for s, r in reads.items()}
    medians = {k: {name: statistics.median(r[name]) for name in ["ours", *peers]} for k, r in rates.items()}
    lines, below = table(medians, roofs)
    wide = {s.bytes() / 2**20: statistics.median(r) for s, r in reads.items() if s.inner == 512}
    speeds = ", ".join(f"{mib:.1f} MiB at {rate:.0f} GB/s" for mib, rate in wide.items())
    lines = [
        f"One core, kernels {kernels}; NumPy {np.__version__}, torch {torch.__version__}; GFLOP/s, median of "
        f"{args.rounds} rounds. The core reaches {peak:.1f} GFLOP/s from registers, and reads {speeds}.",
        "",
        *lines,
        "",
        f"{below} of {len(medians)} products are below {GOAL} of the better library.",
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if args.markdown:
        args.markdown.write_text(text)


if __name__ == "__main__":
    main()
