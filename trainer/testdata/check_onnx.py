"""Prints what onnxruntime makes of an ONNX model.

Usage: check_onnx.py MODEL < OBSERVATIONS

Reads a JSON list of rows from standard input, has ONNX's checker look at the model in full,
and prints one JSON document: its metadata under "metadata" and its outputs, as lists of rows,
under their names. Needs the pip packages onnx and onnxruntime.
"""

import json
import sys

import numpy as np
import onnx
import onnxruntime

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    onnx.checker.check_model(onnx.load(sys.argv[1]), full_check=True)
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    obs = np.array(json.load(sys.stdin), np.float32)
    names = [output.name for output in session.get_outputs()]
    results = session.run(names, {session.get_inputs()[0].name: obs})
    document = {name: result.tolist() for name, result in zip(names, results, strict=True)}
    document["metadata"] = session.get_modelmeta().custom_metadata_map
    json.dump(document, sys.stdout)
