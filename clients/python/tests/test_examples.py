"""Each example runs as a user would run it, with a small budget."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

RUNS = {
    "random_agent.py": ["--episodes", "2"],
    "ppo_gang_window.py": ["--timesteps=4096", "--points=2", "--episodes=2", "--num-envs=8", "--steps=40"],
    "maskable_ppo.py": ["--timesteps=2048", "--episodes=2", "--num-envs=4"],
    "cleanrl_ppo.py": ["--timesteps=8192", "--num-envs=8"],
}


def run(root: Path, name: str, args: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, root / "examples" / name, *args],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", RUNS)
def test_example(root: Path, name: str) -> None:
    assert "return" in run(root, name, RUNS[name]) or name == "ppo_gang_window.py"


def test_random_agent_with_every_other_environment(root: Path) -> None:
    assert run(root, "random_agent.py", ["--env=classic/CartPole-v1"]).count("episode") == 5


def test_learning_curve_has_planners_and_points(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "curve.json"
    text = run(root, "ppo_gang_window.py", [*RUNS["ppo_gang_window.py"], f"--out={out}"])
    curve = json.loads(out.read_text())
    assert set(curve["planners"]) > {"never", "static_1", "static_2", "static_3", "look_ahead", "dynamic_mpc"}
    assert len(curve["ppo"]) == 2
    assert curve["planners"]["look_ahead"] < curve["planners"]["never"]  # on any instance by far
    assert len(re.findall("PPO after", text)) == 2


def test_planners_of_client_and_server_agree(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same planner written here and asked of the server plays the same episodes."""
    monkeypatch.syspath_prepend(root / "examples")
    from gang_planners import PLANNERS, completion_times

    options = {"split": "heldout", "steps": 40}
    for name in ("static_1", "static_2", "static_3"):
        ours = completion_times(PLANNERS[name], 3, seed=7, **options)
        np.testing.assert_array_equal(ours, completion_times(name, 3, seed=7, **options))


def test_every_example_is_run(root: Path) -> None:
    assert {path.name for path in (root / "examples").glob("*.py")} == {*RUNS, "gang_planners.py"}
