"""Reads the model files of the native trainer with NumPy alone. Nothing in a file is executed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from kubernasium.errors import KubernasiumError

FORMAT = 2  # the newest format of checkpoints that is read

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


class ModelError(KubernasiumError):
    """A file is not a model, is damaged, or contains parts that its reader does not support."""


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads a model file.

    Args:
        path: of a safetensors file.

    Returns:
        What the file says of the model, and its tensors by name.

    Raises:
        ModelError: the file is truncated, altered, not a model of ours, or of a newer format.
    """
    data = Path(path).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8:begin])
        metadata = header.pop("__metadata__", {})
        tensors = {name: _tensor(data[begin:], **entry) for name, entry in header.items()}
        if sum(tensor.nbytes for tensor in tensors.values()) != len(data) - begin:
            raise ValueError("tensors and data differ in size")
    except Exception as error:
        raise ModelError(f"{path} is no whole safetensors file: {error}") from error
    if "kubernasium" not in metadata:
        raise ModelError(f"{path} is no model of Kubernasium's trainer: its metadata lack 'kubernasium'")
    meta = json.loads(metadata["kubernasium"])
    if not 1 <= meta["format"] <= FORMAT:
        raise ModelError(f"{path} has format {meta['format']}, this version reads 1 to {FORMAT}")
    _check_digest(path, data, begin, metadata, meta["format"])
    return meta, tensors


def _tensor(data: bytes, dtype: str, shape: list[int], data_offsets: list[int]) -> np.ndarray:
    """Returns a copy of one tensor of the data; a ValueError says what does not fit."""
    begin, end = data_offsets
    if not 0 <= begin <= end <= len(data):
        raise ValueError(f"a tensor at {begin} to {end} of {len(data)} bytes")
    return np.frombuffer(data[begin:end], _DTYPES[dtype]).reshape(shape).copy()


def _check_digest(path: str | Path, data: bytes, begin: int, metadata: dict[str, str], version: int) -> None:
    """Compares the SHA-256 in the metadata with that of the file, whose tensors begin at begin.

    That of format 2 is of the whole file with zeros in place of its own digits; that of format 1 is
    of the tensors only.

    Raises:
        ModelError: they differ, or a file of format 2 has none.
    """
    if version == 1:
        want, digest = metadata.get("sha256"), hashlib.sha256(data[begin:]).hexdigest()
        if want not in (None, digest):
            raise ModelError(f"{path} was altered: the SHA-256 of its data is {digest}, not {want}")
        return
    want = metadata.get("digest", "")
    head, key, rest = data[:begin].partition(f'"digest":"{want}"'.encode())
    zeros = f'"digest":"{"0" * len(want)}"'.encode()
    digest = hashlib.sha256(head + zeros + rest + data[begin:]).hexdigest()
    if not key or digest != want:
        raise ModelError(f"{path} was altered: the SHA-256 of header and data is {digest}, not {want or 'there'}")
