"""Each notebook of examples/ runs from top to bottom in a kernel of its own."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ON_API_SERVER = "on_api_server.ipynb"  # test_twins.py has a control plane for it


def run(name: str) -> str:
    """Returns what the notebook prints."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    with tempfile.TemporaryDirectory(prefix="jupyter-") as folder:
        # Over unix sockets: ports are chosen before the kernel starts, and may no longer be free when it listens.
        kernel = {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}
        config = Config({"KernelManager": kernel})
        NotebookClient(notebook, timeout=300, startup_timeout=300, kernel_name="python3", config=config).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


def test_first_agent() -> None:
    text = run("first_agent.ipynb")
    random = float(re.search(r"random: return (\d+)", text)[1])
    learned = float(re.search(r"learned: return (\d+)", text)[1])
    assert random < 100 < learned <= 500  # a random agent holds the pole for about 22 steps


def test_compare_baselines() -> None:
    text = run("compare_baselines.ipynb")
    scores = {name: float(score) for name, score in re.findall(r"^(\w+) +return +(-[\d.]+)", text, re.MULTILINE)}
    assert {"ours", "never_reconfigure_1000m", "static_3", "oracle_per_step_exact_minmax"} <= scores.keys()
    assert scores["never_reconfigure_1000m"] < scores["ours"]  # planning beats never planning, by far
    assert max(scores, key=scores.get) != "ours"  # clairvoyant ones know the future


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_are_stored_without_results(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.cell_type == "markdown" or (cell.outputs == [] and cell.execution_count is None)


def test_every_notebook_is_run() -> None:
    here = Path(__file__)
    for path in EXAMPLES.glob("*.ipynb"):
        assert path.name == ON_API_SERVER or f'run("{path.name}")' in here.read_text(encoding="utf-8")
    assert "notebooks.ON_API_SERVER" in here.with_name("test_twins.py").read_text(encoding="utf-8")
