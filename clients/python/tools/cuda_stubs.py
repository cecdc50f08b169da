"""Makes PyTorch's Linux wheel importable without the CUDA libraries that it links.

The wheel of PyTorch on PyPI needs 2.4 GB of CUDA libraries at import, although tests on a
machine without a GPU call none of them. For each of those libraries that is missing this
script puts a stand-in beside PyTorch's own: a shared object of the same name whose functions
return an error. `torch.cuda.is_available()` is then False, and the CPU part is untouched. The
small CUDA runtime (nvidia-cuda-runtime, 2 MB), which PyTorch does call, must be the real one.

    pip install --no-deps torch==2.15.0 nvidia-cuda-runtime==13.2.86
    python cuda_stubs.py

It needs a C compiler and binutils. Never run it in an environment that is to use a GPU.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib import util
from pathlib import Path

CUDA = re.compile(r"lib(cu|nv|nccl)\w*\.so\.\d+")
SYMBOL = re.compile(r"(cu|nv|nccl)\w+")
RUNTIME = re.compile(r"libcudart\.so\.\d+")
# Loaded on demand, and only with a GPU; their needs are not those of `import torch`.
ON_DEMAND = {"libcaffe2_nvrtc.so", "libtorch_cuda_linalg.so"}


def run(*command: str) -> str:
    """Returns what command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def missing(folder: Path) -> tuple[set[str], dict[str, set[str]]]:
    """Looks for what PyTorch's libraries need and do not have.

    Returns:
        The names of the CUDA libraries, and the CUDA functions by symbol version.
    """
    libraries = [path for path in sorted(folder.glob("*.so*")) if path.name not in ON_DEMAND]
    present = {path.name for path in libraries}
    needed: set[str] = set()
    functions: dict[str, set[str]] = {}
    for path in libraries:
        needed.update(re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", str(path))))
        for line in run("nm", "-D", "--undefined-only", str(path)).splitlines():
            name, _, version = line.split()[-1].partition("@")
            if SYMBOL.fullmatch(name):
                functions.setdefault(version, set()).add(name)
    return {n for n in needed - present if CUDA.fullmatch(n) and not RUNTIME.fullmatch(n)}, functions


def main() -> None:
    """Writes the stand-ins."""
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("torch is not installed")
    folder = Path(spec.origin).parent / "lib"
    if sys.platform != "linux" or not (folder / "libtorch_cuda.so").exists():
        print("this PyTorch needs no CUDA libraries")
        return
    libraries, functions = missing(folder)
    left = set(functions) - libraries  # versions that are not called like a library
    for name in sorted(libraries):
        versions = [name] if name in functions else sorted(left)
        source = "".join(f"int {f}(void) {{ return 1; }}\n" for v in versions for f in sorted(functions[v]))
        with tempfile.TemporaryDirectory() as scratch:
            script = Path(scratch, "versions")
            # A node of the version script for each version; functions without one are in no node.
            nodes = [f"{v} {{ global: {' '.join(f + ';' for f in sorted(functions[v]))} }};\n" for v in versions if v]
            script.write_text("".join(nodes))
            flags = [f"-Wl,--version-script={script}"] if nodes else []
            command = [
                "cc",
                "-shared",
                "-fPIC",
                f"-Wl,-soname,{name}",
                *flags,
                "-x",
                "c",
                "-",
                "-o",
                str(folder / name),
            ]
            subprocess.run(command, input=source, text=True, check=True)
    print(f"stand-ins for {', '.join(sorted(libraries)) or 'nothing'} in {folder}")


if __name__ == "__main__":
    main()
