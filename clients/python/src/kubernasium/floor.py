"""The oldest Gymnasium that the package works with."""

from __future__ import annotations

import re
from importlib import metadata

GYMNASIUM = (1, 1)  # the first with AutoresetMode; pyproject.toml declares it too


def check_gymnasium() -> None:
    """Raises ImportError, in one line, if the Gymnasium that is installed is too old."""
    try:
        version = metadata.version("gymnasium")
    except metadata.PackageNotFoundError:  # on the path, but not installed
        return
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if numbers < GYMNASIUM:
        floor = ".".join(map(str, GYMNASIUM))
        raise ImportError(
            f"kubernasium needs gymnasium {floor} or newer and found {version}: "
            f"pip install --upgrade 'gymnasium>={floor}'"
        )
