"""Prints what onnxruntime makes of ONNX models.

Usage: check_onnx.py < JOBS

Reads a JSON list of jobs from standard input: {"model": a path, "inputs": {a name: an array of
shape (steps, N, ...)}}. ONNX's checker looks at each model in full. The steps are run one after
another; the state of a recurrent model, zeros at first, is the next_state of the step before.
Prints a JSON list with, for each job, its metadata under "metadata" and its outputs under their
names, of shape (steps, N, numbers). Needs the pip packages onnx and onnxruntime.
"""

import json
import sys

import numpy as np
import onnx
import onnxruntime

DTYPES = {"tensor(float)": np.float32, "tensor(bool)": np.bool_}


def run(path: str, inputs: dict) -> dict:
    """Runs a model over the steps."""
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = {i.name: i for i in session.get_inputs()}
    arrays = {name: np.array(values, DTYPES[wanted[name].type]) for name, values in inputs.items()}
    steps, rows = next(iter(arrays.values())).shape[:2]
    state = {"state": np.zeros((rows, wanted["state"].shape[1]), np.float32)} if "state" in wanted else {}
    names = [output.name for output in session.get_outputs()]
    results = {name: [] for name in names}
    for t in range(steps):
        outputs = dict(zip(names, session.run(names, {name: a[t] for name, a in arrays.items()} | state), strict=True))
        for name, result in outputs.items():
            results[name].append(result.tolist())
        if state:
            state["state"] = outputs["next_state"]
    return results | {"metadata": session.get_modelmeta().custom_metadata_map}


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    json.dump([run(job["model"], job["inputs"]) for job in json.load(sys.stdin)], sys.stdout)
