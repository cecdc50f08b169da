"""Networks of the native trainer in NumPy, float32, for `kubernasium.Policy`.

Parameters have PyTorch's names and layout, (outputs, inputs). Names of parts and the functions are those
of Go's package models; only the parts that a policy reads are computed, not those of the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

State = tuple[np.ndarray, np.ndarray]
"""h and c of an LSTM, each of shape (layers, N, cells)."""

_NORM_EPSILON = 1e-5  # of torch.nn.LayerNorm
_FIELDS = {
    "": {"inputs", "nodes", "lstms", "towers", "heads"},
    "nodes": {"offset", "n", "features", "edges"},
    "edges": {"offset", "n", "masked", "mask_offset", "fixed", "undirected"},
    "lstms": {"name", "hidden", "layers", "pool"},
    "towers": {"name", "hidden", "activation", "layer_norm", "reads", "pool", "layer", "detach", "beside"},
    "heads": {"name", "tower", "size", "gain", "joined", "blocks", "free", "value"},
}


def unknown_field(spec: dict[str, Any], part: str = "") -> str | None:
    """Returns the first field of a network's description that this module does not know."""
    for name, value in spec.items():
        if name not in _FIELDS[part]:
            return f"{part}.{name}".lstrip(".")
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict) and (found := unknown_field(inner, name)):
                return found
    return None


_ZERO = np.zeros((), np.float32)


def relu(x: np.ndarray, out: np.ndarray) -> None:
    """Writes the positive part of x to out."""
    np.maximum(x, _ZERO, out=out)


ACTIVATIONS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {"tanh": np.tanh, "relu": relu}


class Layout:
    """Where a row of an observation holds nodes, edges, and numbers that belong to none of them."""

    def __init__(self, spec: dict[str, Any]) -> None:
        nodes = spec["nodes"]
        self.n, self.features, self.edges = nodes["n"], nodes["features"], nodes.get("edges") or {}
        count, offset, mask = (self.edges.get(key, 0) for key in ("n", "offset", "mask_offset"))
        self.rows = slice(nodes.get("offset", 0), nodes.get("offset", 0) + self.n * self.features)
        self.ends = slice(offset, offset + 2 * count)
        self.mask = slice(mask, mask + count) if self.edges.get("masked") else slice(0, 0)
        used = np.zeros(spec["inputs"], bool)
        for part in (self.rows, self.ends, self.mask):
            used[part] = True
        self.others = np.flatnonzero(~used)

    def counts(self, rows: np.ndarray) -> np.ndarray | None:
        """Returns how many edges lead to a node, its row, from another, its column: (N, n, n).

        Raises:
            ValueError: an end is no node.
        """
        if not self.edges:
            return None
        size = len(rows)
        if self.edges.get("fixed"):
            ends = np.broadcast_to(np.array(self.edges["fixed"]), (size, len(self.edges["fixed"]), 2))
            used = np.ones(ends.shape[:2], bool)
        else:
            given = rows[:, self.ends].reshape(size, -1, 2)
            used = rows[:, self.mask] != 0 if self.edges.get("masked") else np.ones(given.shape[:2], bool)
            valid = (given >= 0) & (given < self.n) & (given == np.floor(given))
            if not valid[used].all():
                raise ValueError(f"edges have an end {given[used][~valid[used]][0]:g}, want nodes 0 to {self.n - 1}")
            ends = np.where(used[..., None], given, 0).astype(np.int64)
        counts = np.zeros((size, self.n, self.n), np.float32)
        row = np.broadcast_to(np.arange(size)[:, None], used.shape)
        np.add.at(counts, (row[used], ends[..., 1][used], ends[..., 0][used]), 1)
        if self.edges.get("undirected"):  # a loop counts once
            counts += counts.transpose(0, 2, 1) * (1 - np.eye(self.n, dtype=np.float32))
        return counts


def pool(x: np.ndarray, how: str) -> np.ndarray:
    """Returns x, (N, nodes, width), pooled over the nodes: "mean", "max" or "mean+max" side by side."""
    return np.concatenate([x.mean(axis=1) if part == "mean" else x.max(axis=1) for part in how.split("+")], axis=1)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.float32(0.5) * np.tanh(np.float32(0.5) * x) + np.float32(0.5)


class Network:
    """The heads of a policy as a function of rows of observations.

    Attributes:
        layout: of the nodes of an observation, or None.
        state_shape: (layers, cells) of its LSTM, or None.
    """

    def __init__(self, spec: dict[str, Any], tensors: dict[str, np.ndarray], heads: list[str]) -> None:
        """Makes the network.

        Args:
            spec: description of the network, as the model file has it.
            tensors: parameters by name.
            heads: names of the heads to compute; those joined to them are computed, too.
        """
        self._spec, self._parameters = spec, tensors
        self.layout = Layout(spec) if spec.get("nodes") else None
        self._towers = {tower["name"]: tower for tower in spec["towers"]}
        self._heads: list[dict[str, Any]] = []
        for head in spec["heads"]:
            if head["name"] in heads or (head.get("joined") and self._heads and not head.get("free")):
                self._heads.append(head)
        read = set()
        for head in self._heads:
            tower = spec["towers"][head["tower"]]
            while tower.get("reads") in self._towers:
                tower = self._towers[tower["reads"]]
            read.add(tower.get("beside") or tower.get("reads") or "")
        lstms = [lstm for lstm in spec.get("lstms") or [] if lstm["name"] in read]
        if len(lstms) > 1 or any(lstm["layers"] < 1 for lstm in lstms):
            raise ValueError(f"a policy with the LSTMs {lstms}, want at most one of at least one layer")
        self._lstm = lstms[0] if lstms else None
        self.state_shape = (self._lstm["layers"], self._lstm["hidden"]) if self._lstm else None

    def __call__(self, rows: np.ndarray, state: State | None = None) -> tuple[list[np.ndarray], State | None]:
        """Evaluates observations.

        Args:
            rows: float32 of shape (N, inputs).
            state: of the LSTM before the step, which stays as it is; None without an LSTM.

        Returns:
            An array (N, numbers) for each head, joined ones after the head that they continue; and the
            state after the step.
        """
        counts = self.layout.counts(rows) if self.layout else None
        memory = None
        if self._lstm and state is not None:
            memory, state = self._remember(rows, state)
        results: dict[str, np.ndarray] = {}
        outputs = []
        for head in self._heads:
            x = self._tower(self._spec["towers"][head["tower"]], rows, memory, counts, results)
            outputs.append(self._linear(head["name"], x).reshape(len(rows), -1))
        return outputs, state

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self._parameters[name + ".weight"].T + self._parameters[name + ".bias"]

    def _remember(self, rows: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Returns the results of the LSTM and its next state."""
        name, how, p = self._lstm["name"], self._lstm.get("pool"), self._parameters
        x = rows
        if how:
            at = self.layout
            nodes = rows[:, at.rows].reshape(len(rows), at.n, at.features)
            x = np.concatenate([rows[:, at.others], pool(nodes, how)], axis=1)
        h, c = np.empty_like(state[0]), np.empty_like(state[1])
        for k in range(len(h)):
            gates = x @ p[f"{name}.weight_ih_l{k}"].T + (p[f"{name}.bias_ih_l{k}"] + p[f"{name}.bias_hh_l{k}"])
            gates += state[0][k] @ p[f"{name}.weight_hh_l{k}"].T
            take, forget, new, out = np.split(gates, 4, axis=1)
            c[k] = _sigmoid(forget) * state[1][k] + _sigmoid(take) * np.tanh(new)
            x = h[k] = _sigmoid(out) * np.tanh(c[k])
        return x, (h, c)

    def _tower(
        self,
        tower: dict[str, Any],
        rows: np.ndarray,
        memory: np.ndarray | None,
        counts: np.ndarray | None,
        results: dict[str, np.ndarray],
    ) -> np.ndarray:
        """Returns the results of a tower, and keeps them in results."""
        name, reads = tower["name"], tower.get("reads")
        if name in results:
            return results[name]
        hidden, step = tower["hidden"] or [], 3 if tower.get("layer_norm") else 2
        first = 0
        if reads == "nodes":
            x, first = self._nodes(tower, rows, memory, counts)
        elif reads in self._towers:
            x = pool(self._tower(self._towers[reads], rows, memory, counts, results), tower["pool"])
        else:
            x = memory if reads else rows
        for j in range(len(hidden)):
            if j >= first:
                x = self._layer(tower.get("layer"), f"{name}.{step * j}", x, counts)
            if step == 3:
                x = self._norm(f"{name}.{step * j + 1}", x)
            ACTIVATIONS[tower["activation"]](x, x)
        results[name] = x
        return x

    def _nodes(
        self, tower: dict[str, Any], rows: np.ndarray, memory: np.ndarray | None, counts: np.ndarray | None
    ) -> tuple[np.ndarray, int]:
        """Returns what a tower over nodes reads, (N, n, width), and the number of layers that are done.

        The numbers of no node are the same for all of them, so a dense first layer takes them once.
        """
        at = self.layout
        nodes, shared = rows[:, at.rows].reshape(len(rows), at.n, at.features), rows[:, at.others]
        if tower.get("beside"):
            shared = np.concatenate([shared, memory], axis=1)
        if tower["hidden"] and not tower.get("layer"):
            weight, bias = (self._parameters[f"{tower['name']}.0.{part}"] for part in ("weight", "bias"))
            own, common = weight[:, : at.features], weight[:, at.features :]
            return nodes @ own.T + (shared @ common.T + bias)[:, None, :], 1
        repeated = np.broadcast_to(shared[:, None, :], (len(rows), at.n, shared.shape[1]))
        return np.concatenate([nodes, repeated], axis=2), 0

    def _layer(self, kind: str | None, name: str, x: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
        if not kind:
            return self._linear(name, x)
        p = self._parameters
        if kind == "sage":
            mean = counts / np.maximum(counts.sum(axis=2, keepdims=True), np.float32(1))
            return self._linear(name + ".lin_l", mean @ x) + x @ p[name + ".lin_r.weight"].T
        identity = np.eye(counts.shape[1], dtype=np.float32)
        matrix = counts * (1 - identity) + identity
        root = 1 / np.sqrt(matrix.sum(axis=2))
        return (root[:, :, None] * matrix * root[:, None, :] @ x) @ p[name + ".lin.weight"].T + p[name + ".bias"]

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        x = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(_NORM_EPSILON))
        return x / deviation * self._parameters[name + ".weight"] + self._parameters[name + ".bias"]
