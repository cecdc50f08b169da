"""A trained model as a function of an observation, in NumPy alone: without a server, PyTorch or Gymnasium.

    import kubernasium

    policy = kubernasium.Policy("best_model.safetensors")
    action = policy(obs, info["action_mask"])

It takes the model files of the native trainer, of all its algorithms. Actions are those of `trainer eval`;
scores differ from the trainer's by the rounding of float32, at most 3·10⁻⁶ of their size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kubernasium.errors import InvalidArgumentError
from kubernasium.model_file import ModelError, read
from kubernasium.networks import ACTIVATIONS, Network, State, unknown_field

_ACTORS = {"ppo", "a2c", "reinforce", "ppo_lstm", "bc"}
_VALUES = {"dqn", "cql"}
_FORECASTER = "lstm_forecaster"
_EPSILON = 1e-8  # added to variances before their root is taken, as VecNormalize does
_FLOAT32 = np.dtype(np.float32)
Forward = Callable[[Any], "np.ndarray | None"]

_FEW = 32  # actions up to which a loop of Python is faster than NumPy


class Policy:
    """A trained model.

    One observation of the environment gives one action, and a batch of N a batch of N. A policy is not thread-safe,
    since it reuses memory for its results; different policies are independent.

    Attributes:
        meta: what the file says of the model, such as "algo", "env" and "env_kwargs".
        recurrent: whether it has an LSTM, whose state `predict` takes and returns.
    """

    def __init__(self, path: str | Path, seed: int | None = None) -> None:
        """Reads a model.

        Args:
            path: of a safetensors file of `trainer train` or of models/pretrained.
            seed: of the actions that `predict` draws; by default they differ in each process.

        Raises:
            ModelError: the file is damaged or no model, or a newer version wrote it; the message says what.
        """
        self.meta, tensors = read(path)
        self._path, self._algo, spec = path, self.meta["algo"], self.meta["spec"]
        if self._algo not in _ACTORS | _VALUES | {_FORECASTER}:
            raise ModelError(f"{path} was learned by {self._algo!r}, which this version does not know; {_ELSEWHERE}")
        if field := unknown_field(spec):
            raise ModelError(f"{path} has a network with {field!r}, which this version does not know; {_ELSEWHERE}")
        self._obs, self._actions = (json.loads(self.meta[key]) for key in ("observation_space", "action_space"))
        self._keys = self._obs.get("keys") if self._obs["kind"] == "dict" else None
        parts = [self._obs] if self._keys is None else self._obs["parts"]
        if any(part["kind"] != "box" for part in parts) or self._actions["kind"] not in _MASKS:
            kinds = [part["kind"] for part in parts], self._actions["kind"]
            raise ModelError(f"{path} maps {kinds[0]} to {kinds[1]}, want boxes to one of {list(_MASKS)}; {_ELSEWHERE}")
        self._shapes = [tuple(part["shape"]) for part in parts]
        self._mask = _MASKS[self._actions["kind"]](self._actions)
        self._discrete, self._box = self._actions["kind"] == "discrete", self._actions["kind"] == "box"
        self._rng = np.random.default_rng(seed)
        heads = ["action_net", "q_net.value_net", "quantiles", spec["heads"][0]["name"]]
        try:
            self._network = Network(spec, tensors, heads)
            self._log_std = tensors["log_std"].astype(np.float64) if self._box and self._algo in _ACTORS else None
        except (KeyError, ValueError) as error:
            raise ModelError(f"{path} has a network that does not fit: {error}; {_ELSEWHERE}") from error
        self.recurrent = self._network.state_shape is not None
        self._scaling = self._statistics(tensors)
        self._forecast = _forecaster(self.meta["config"]) if self._algo == _FORECASTER else None
        if self._box:
            shape = tuple(self._actions["shape"])
            bounds = [np.array([float(x) for x in self._actions[key]], np.float32) for key in ("low", "high")]
            self._low, self._high = (np.resize(bound, shape) for bound in bounds)  # one number stands for all
        self._fast = self._act(self._forward(spec, tensors))

    @property
    def observation_space(self) -> Any:
        """The observations of the training, as a space of Gymnasium."""
        from kubernasium.spaces import from_description

        return from_description(self._obs)

    @property
    def action_space(self) -> Any:
        """The actions, as a space of Gymnasium."""
        from kubernasium.spaces import from_description

        return from_description(self._actions)

    def __call__(self, obs: Any, mask: Any = None) -> Any:
        """Returns the most probable permitted action, or the one of the highest value.

        Args:
            obs: an observation as the environment gives it, an array or a dict of arrays; or a batch.
            mask: the permitted actions, `info["action_mask"]`; None permits all.

        Returns:
            An int for Discrete actions, else an array; of a batch an array with a row for each.

        Raises:
            InvalidArgumentError: an observation or a mask of a wrong shape or type, or a mask that permits
                nothing.
        """
        action = self._fast(obs, mask)
        return self._any(obs, mask) if action is None else action

    def _any(self, obs: Any, mask: Any) -> Any:
        """Returns what a call returns, for any model, observation and mask."""
        if self.recurrent:
            raise InvalidArgumentError(
                f"{self._path} has an LSTM, whose state a call would lose; use action, state = "
                "policy.predict(obs, state, episode_start, deterministic=True)"
            )
        action, _ = self.predict(obs, deterministic=True, action_masks=mask)
        return int(action) if self._discrete and action.ndim == 0 else action

    def predict(
        self,
        observation: Any,
        state: State | None = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[np.ndarray, State | None]:
        """Returns actions in the way of Stable-Baselines3 and sb3-contrib.

        Args:
            observation: an observation, or a batch of N.
            state: the state that the previous call returned; None starts with zeros.
            episode_start: of a recurrent policy, bool of shape (N,): True where an episode starts, and the state is
            ignored.
            deterministic: take the most probable action; else draw one. The values of DQN and CQL have no
                distribution: their policies take the best action in both cases, as SB3's DQNPolicy does.
            action_masks: as mask of a call.

        Returns:
            The actions, and the state for the next call; None without an LSTM.

        Raises:
            InvalidArgumentError: as a call.
        """
        rows, single = self._rows(observation)
        mask = self._permitted(action_masks, len(rows))
        scores, state = self._scores(rows, state, episode_start)
        if self._forecast is not None:
            actions = self._forecast(rows, scores)
        else:
            drawn = not deterministic and self._algo in _ACTORS
            actions = self._draw(scores, mask) if drawn else self._greedy(scores, mask)
        return actions[0, ...] if single else actions, state

    def scores(self, obs: Any, state: State | None = None, episode_start: Any = None) -> np.ndarray:
        """Returns what the policy compares: logits, action values of DQN and CQL, or the mean of a Box.

        Args:
            obs: an observation, or a batch of N.
            state: as of `predict`.
            episode_start: likewise.

        Returns:
            float32 of shape (numbers,), of a batch (N, numbers). No mask applies to them.
        """
        rows, single = self._rows(obs)
        scores, _ = self._scores(rows, state, episode_start)
        return scores[0] if single else scores

    def probabilities(
        self, obs: Any, mask: Any = None, state: State | None = None, episode_start: Any = None
    ) -> np.ndarray:
        """Returns the distribution that `predict` draws from.

        Args:
            obs: an observation, or a batch of N.
            mask: as of a call.
            state: as of `predict`.
            episode_start: likewise.

        Returns:
            A probability for each element of the mask, float64: for each Discrete action; side by side
            for the values of each element of a MultiDiscrete; for 0 and 1 of each of a MultiBinary.

        Raises:
            InvalidArgumentError: the policy has none: action values, and a Box.
        """
        if self._algo not in _ACTORS or self._box:
            raise InvalidArgumentError(
                f"{self._path} ({self._algo}, actions {self._actions['kind']}) has no probabilities; use scores"
            )
        rows, single = self._rows(obs)
        permitted = self._permitted(mask, len(rows))
        scores, _ = self._scores(rows, state, episode_start)
        result = np.concatenate(self._distributions(scores, permitted), axis=1)
        return result[0] if single else result

    def _rows(self, obs: Any) -> tuple[np.ndarray, bool]:
        """Returns observations as float32 rows, and whether it is one without a batch."""
        if self._keys is None:
            parts = [obs]
        elif isinstance(obs, Mapping) and set(self._keys) <= set(obs):
            parts = [obs[key] for key in self._keys]
        else:
            given = f"a dict with {sorted(obs)}" if isinstance(obs, Mapping) else type(obs).__name__
            raise InvalidArgumentError(f"the observation is {given}, want a dict with {self._keys}")
        arrays = [np.asarray(part) for part in parts]
        single = arrays[0].shape == self._shapes[0]
        size = 1 if single else len(arrays[0]) if arrays[0].ndim else 0
        for i, (array, shape) in enumerate(zip(arrays, self._shapes, strict=True)):
            what = "the observation" if self._keys is None else f"{self._keys[i]!r} of the observation"
            if array.dtype.kind not in "fiub":
                raise InvalidArgumentError(f"{what} has the dtype {array.dtype}, want float32 or other real numbers")
            if array.shape != (shape if single else (size, *shape)) or size == 0:
                raise InvalidArgumentError(f"{what} has the shape {array.shape}, want {shape}, or (N, …) of a batch")
        rows = np.concatenate([array.reshape(size, -1) for array in arrays], axis=1).astype(np.float32)
        if not np.isfinite(rows).all():
            row, at = np.argwhere(~np.isfinite(rows))[0]
            raise InvalidArgumentError(f"the observation has {rows[row, at]} at {at}, want finite numbers")
        return rows, single

    def _permitted(self, mask: Any, n: int) -> np.ndarray | None:
        """Returns a mask as bool of shape (N, elements); None permits all."""
        if mask is None:
            return None
        array = np.asarray(mask)
        if array.size != n * self._mask or array.dtype.kind not in "biuf":
            raise InvalidArgumentError(
                f"the mask has the shape {array.shape} and dtype {array.dtype}, want {self._mask} for each observation"
            )
        permitted = array.reshape(n, self._mask) != 0
        for begin, end in self._groups():
            if not permitted[:, begin:end].any(axis=1).all():
                raise InvalidArgumentError(f"the mask permits none of elements {begin} to {end - 1} in a row")
        return permitted

    def _groups(self) -> list[tuple[int, int]]:
        """Returns where the alternatives of one choice begin and end in a mask."""
        sizes = {"multi_discrete": lambda: self._actions["n"], "multi_binary": lambda: [2] * self._actions["n"][0]}
        ends = np.cumsum(sizes.get(self._actions["kind"], lambda: [self._mask])()).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))

    def _scores(self, rows: np.ndarray, state: State | None, start: Any) -> tuple[np.ndarray, State | None]:
        """Returns the outputs of the network that describe actions, (N, numbers), and the next state."""
        if self.recurrent:
            state = self._before(state, start, len(rows))
        elif state is not None:
            raise InvalidArgumentError(f"{self._path} has no LSTM, and so takes no state")
        if self._forecast is not None:
            inputs = rows[:, _FORECAST_READS]
        else:
            inputs = rows if self._scaling is None else self._normalize(rows)
        try:
            outputs, state = self._network(inputs, state)
        except ValueError as error:  # of edges
            raise InvalidArgumentError(str(error)) from error
        if self._algo in _VALUES and len(outputs) > 1 and self._dueling:
            values, value = np.concatenate(outputs[:-1], axis=1), outputs[-1]
            return (values + (value - values.mean(axis=1, keepdims=True, dtype=np.float64))).astype(np.float32), None
        return np.concatenate(outputs, axis=1), state

    @property
    def _dueling(self) -> bool:
        return any(head["name"] == "q_net.value_net" for head in self.meta["spec"]["heads"])

    def _before(self, state: State | None, start: Any, n: int) -> State:
        """Returns the state before a step, with zeros where an episode starts."""
        layers, cells = self._network.state_shape
        shape = (layers, n, cells)
        if state is None:
            return np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        if len(state) != 2 or any(np.shape(part) != shape for part in state):
            shapes = [np.shape(part) for part in state]
            raise InvalidArgumentError(f"the state has the shapes {shapes}, want (h, c) of {shape} each")
        if start is None:
            return state
        keep = ~np.asarray(start, bool).reshape(-1)
        if len(keep) != n:
            raise InvalidArgumentError(f"episode_start has {len(keep)} elements, want {n}")
        h, c = (np.where(keep[:, None], part, np.float32(0)) for part in state)
        return h, c

    def _normalize(self, rows: np.ndarray) -> np.ndarray:
        mean, std, clip, low = self._scaling
        scaled = (rows.astype(np.float64) - mean) / std
        return np.minimum(np.maximum(scaled, low), clip).astype(np.float32)

    def _statistics(self, tensors: dict[str, np.ndarray]) -> list[np.ndarray] | None:
        """Returns mean, deviation, bound and lower bound for each number of an observation; None without."""
        settings = json.loads((self.meta.get("metadata") or {}).get("normalize", "{}"))
        if not settings.get("norm_obs") or self._algo == _FORECASTER:
            return None
        inputs = self.meta["spec"]["inputs"]
        of = np.arange(inputs)
        if layout := self._network.layout:  # nodes share the statistics of each feature; edges have none
            of = np.full(inputs, -1)
            of[layout.rows] = np.arange(layout.n * layout.features) % layout.features
            of[layout.others] = layout.features + np.arange(len(layout.others))
        mean, variance = tensors["state.obs_rms.mean"][of], tensors["state.obs_rms.var"][of]
        has = of >= 0
        std = np.where(has, np.sqrt(variance + _EPSILON), 1.0)
        clip = np.where(has, float(settings["clip_obs"]), np.inf)
        return [np.where(has, mean, 0.0), std, clip, -clip]

    def _greedy(self, scores: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Returns the best permitted actions."""
        if self._box:
            return np.clip(scores.reshape(-1, *self._actions["shape"]), self._low, self._high)
        if self._actions["kind"] == "multi_binary":
            one = scores > 0
            if mask is not None:
                one = np.where(mask[:, 0::2] & mask[:, 1::2], one, mask[:, 1::2])
            return one.astype(np.int8)
        masked = scores if mask is None else np.where(mask, scores, -np.inf)
        best = [masked[:, begin:end].argmax(axis=1) for begin, end in self._groups()]
        return best[0] if self._discrete else np.stack(best, axis=1)

    def _distributions(self, scores: np.ndarray, mask: np.ndarray | None) -> list[np.ndarray]:
        """Returns the probabilities of the alternatives of each choice, each (N, alternatives)."""
        logits = scores.astype(np.float64)
        if self._actions["kind"] == "multi_binary":  # log-odds of 1
            logits = np.stack([np.zeros_like(logits), logits], axis=2).reshape(len(logits), -1)
        if mask is not None:
            logits = np.where(mask, logits, -np.inf)
        parts = []
        for begin, end in self._groups():
            part = np.exp(logits[:, begin:end] - logits[:, begin:end].max(axis=1, keepdims=True))
            parts.append(part / part.sum(axis=1, keepdims=True))
        return parts

    def _draw(self, scores: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Draws actions."""
        if self._box:
            noise = np.exp(self._log_std) * self._rng.standard_normal(scores.shape)
            return np.clip(
                (scores + noise).astype(np.float32).reshape(-1, *self._actions["shape"]), self._low, self._high
            )
        drawn = []
        for part in self._distributions(scores, mask):
            total = part.cumsum(axis=1)
            total[total >= part.sum(axis=1, keepdims=True)] = np.inf  # the last permitted one takes what rounding left
            drawn.append((total > self._rng.random((len(part), 1))).argmax(axis=1))
        if self._actions["kind"] == "multi_binary":
            return np.stack(drawn, axis=1).astype(np.int8)
        return drawn[0] if self._discrete else np.stack(drawn, axis=1)

    def _forward(self, spec: dict[str, Any], tensors: dict[str, np.ndarray]) -> Forward | None:
        """Returns the function for one observation of a dense network, in the fewest calls of NumPy; else None.

        A bias is a column of its weight, beside a 1 that stays behind each layer's results, so that a layer
        is one product and one activation in the same memory. The first layer has a further unit without
        weights: 0 times NaN or infinity is NaN, which spreads to all outputs.
        """
        tower = spec["towers"][spec["heads"][0]["tower"]]
        single = not (spec.get("nodes") or spec.get("lstms") or tower.get("layer_norm") or self._keys)
        if not single or not tower["hidden"] or (self._algo in _VALUES and len(spec["heads"]) > 1):
            return None
        names = [f"{tower['name']}.{2 * i}" for i in range(len(tower["hidden"]))] + [spec["heads"][0]["name"]]
        row = np.ones(spec["inputs"] + 1, np.float32)
        x, layers = row, []
        for name in names:
            weight, bias = tensors[name + ".weight"], tensors[name + ".bias"]
            if len(layers) == 1:
                weight = np.column_stack([weight, np.zeros_like(bias)])
            weight = np.column_stack([weight, bias])
            if not layers:
                weight = np.vstack([weight, np.zeros_like(weight[:1])])
            y = np.ones(len(weight) + 1, np.float32)
            layers.append((np.asfortranarray(weight).dot, x, y[:-1]))  # BLAS adds columns up faster than rows
            x = y
        *hidden, (last, top, out) = layers
        activate, shape = ACTIVATIONS[tower["activation"]], self._shapes[0]
        numbers, ndarray, float32 = row[:-1].reshape(shape), np.ndarray, _FLOAT32
        scaling = None if self._scaling is None else [part.reshape(shape) for part in self._scaling]
        exact, zeros = np.empty(shape), np.zeros(shape, np.float32)

        def forward(obs: Any) -> np.ndarray | None:
            if type(obs) is not ndarray or obs.dtype is not float32 or obs.shape != shape:
                return None
            if scaling is None:
                numbers[...] = obs
            else:
                if np.vdot(obs, zeros) != 0:  # NaN, as 0 times infinity is: the bound would hide it
                    return None
                mean, std, clip, low = scaling
                np.subtract(obs, mean, exact)
                np.divide(exact, std, exact)
                np.maximum(exact, low, out=exact)
                np.minimum(exact, clip, out=exact)
                numbers[...] = exact
            for product, x, y in hidden:
                product(x, y)
                activate(y, y)
            return last(top, out)

        return forward

    def _act(self, forward: Forward | None) -> Callable[[Any, Any], Any]:
        """Returns the function behind a call; it returns None for what it does not handle."""
        if forward is None or not (self._discrete or self._box):
            return lambda obs, mask: None
        low, high = (self._low, self._high) if self._box else (None, None)

        def choose(obs: Any, mask: Any) -> int | None:
            out = forward(obs)
            if out is None:
                return None
            scores = out.tolist()
            if mask is not None:
                return _best(scores, mask)
            best = max(scores)
            return scores.index(best) if best == best else None

        def move(obs: Any, mask: Any) -> np.ndarray | None:
            out = forward(obs)
            if out is None or mask is not None or out[0] != out[0]:
                return None
            action = np.maximum(out.reshape(low.shape), low)
            return np.minimum(action, high, out=action)

        return choose if self._discrete else move


def _best(scores: list[float], mask: Any) -> int | None:
    """Returns the best permitted of few scores; None if the mask is not as simple as that."""
    if scores[0] != scores[0]:
        return None
    if (
        type(mask) is not np.ndarray
        or mask.shape != (len(scores),)
        or len(scores) > _FEW
        or mask.dtype.kind not in "bi"
    ):
        return None
    best, highest = None, -math.inf
    for i, permitted in enumerate(mask.tolist()):
        if permitted and scores[i] > highest:
            best, highest = i, scores[i]
    return best


_ELSEWHERE = (
    "a newer version may know it, as may `trainer export --onnx`, `trainer eval` and Go's package agents/trained"
)

# Elements of an action mask, by the kind of the action space.
_MASKS: dict[str, Callable[[dict[str, Any]], int]] = {
    "discrete": lambda act: act["n"][0],
    "multi_discrete": lambda act: sum(act["n"]),
    "multi_binary": lambda act: 2 * act["n"][0],
    "box": lambda act: 0,
}

# What follows is the rule of Go's package agents/forecast, which makes requests of forecasts. Amounts are
# logarithms to the base 4, relative to the target of upstream's recommender.
_FORECAST_READS = [29, 31, 32, 33, 35, 36, 37, 39, 40, 41, 43, 44, 16, 17, 18, 19]
_QUANTILES = [0.2, 0.5, 0.8, 0.99]  # of CPU usage; one of memory follows


def _forecaster(config: dict[str, Any]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Returns the rule, from observations (N, 45) and forecasts (N, 5) to actions (N, 8)."""
    band, limit, margin = (math.log(x) / math.log(4) for x in (config["band"], config["limit_ratio"], 1.15))
    at = _QUANTILES.index(config["quantile"])

    def recommend(rows: np.ndarray, forecasts: np.ndarray) -> np.ndarray:
        out = forecasts.astype(np.float64)
        columns = []
        for first, x in ((29, np.maximum(out[:, at], out[:, 3] - limit)), (37, out[:, 4] + margin)):
            columns += [x - band - rows[:, first + 6], x, x + band - rows[:, first + 7], x]
        return np.clip(np.stack(columns, axis=1), -1, 1).astype(np.float32)

    return recommend
