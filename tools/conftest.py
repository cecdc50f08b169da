"""The option --dist of test_dist.py."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--dist", type=Path, required=True, help="folder with the wheels and the sdist")


@pytest.fixture(scope="session")
def dist(request: pytest.FixtureRequest) -> Path:
    return request.config.getoption("--dist").resolve()
