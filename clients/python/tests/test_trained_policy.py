"""kubernasium.Policy. A Go test compares it with the trainer on every shipped model and kind of network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from kubernasium import Policy
from kubernasium.errors import InvalidArgumentError
from kubernasium.load_sb3 import load
from kubernasium.model_file import ModelError

PRETRAINED = Path(__file__).resolve().parents[3] / "models" / "pretrained"
CARTPOLE = PRETRAINED / "classic-CartPole-v1"
BALANCE = PRETRAINED / "k8s-PodBalance-v0"
torch.set_num_threads(1)


@pytest.mark.parametrize("algo", ["ppo", "a2c", "dqn", "reinforce", "ppo_lstm"])
def test_keeps_gymnasiums_pole_up(algo: str) -> None:
    """Gymnasium calls CartPole solved at a mean of 475 steps of 500; SB3's own loop calls predict."""
    policy = Policy(CARTPOLE / f"{algo}.safetensors")
    assert policy.recurrent == (algo == "ppo_lstm")
    mean, _ = evaluate_policy(policy, make_vec_env("CartPole-v1", seed=1), n_eval_episodes=10, warn=False)
    assert mean >= gymnasium.spec("CartPole-v1").reward_threshold


@pytest.mark.parametrize("folder", [CARTPOLE, BALANCE])
def test_probabilities_are_those_of_torch(folder: Path) -> None:
    """The distribution of the same file in PyTorch, for one observation, a batch, and behind a mask."""
    path = folder / "ppo.safetensors"
    policy, peer = Policy(path), load(path).policy
    rng = np.random.default_rng(1)
    space = policy.observation_space
    if isinstance(space, gymnasium.spaces.Dict):
        batch = {key: rng.normal(size=(8, *part.shape)).astype(np.float32) for key, part in space.items()}
        one = {key: array[3] for key, array in batch.items()}
    else:
        batch = rng.normal(size=(8, *space.shape)).astype(np.float32)
        one = batch[3]
    with torch.no_grad():
        want = peer.get_distribution(peer.obs_to_tensor(batch)[0]).distribution.probs.double().numpy()
    np.testing.assert_allclose(policy.probabilities(batch), want, rtol=0, atol=1e-6)
    np.testing.assert_allclose(policy.probabilities(one), want[3], rtol=0, atol=1e-6)
    mask = np.ones(want.shape[1], np.int8)
    mask[want[3].argmax()] = 0
    masked = want[3] * mask / (want[3] * mask).sum()
    np.testing.assert_allclose(policy.probabilities(one, mask), masked, rtol=0, atol=1e-5)
    assert policy(one, mask) == masked.argmax()
    assert policy(one, mask.astype(bool)) == masked.argmax()
    assert policy(one) == want[3].argmax()
    np.testing.assert_array_equal(policy(batch), want.argmax(axis=1))


def test_draws_from_the_distribution() -> None:
    """40,000 draws are within 4 standard deviations, 0.01; equal seeds draw alike; the mask holds."""
    path = PRETRAINED / "k8s-GangWindow-v0" / "reinforce.safetensors"
    policy = Policy(path, seed=3)
    obs = np.random.default_rng(5).normal(size=policy.observation_space.shape).astype(np.float32)
    batch = np.repeat(obs[None], 40_000, axis=0)
    mask = np.repeat([[1, 0, 1, 1]], len(batch), axis=0).astype(np.int8)
    drawn, state = policy.predict(batch, action_masks=mask)
    assert state is None
    counts = np.bincount(drawn, minlength=4) / len(batch)
    np.testing.assert_allclose(counts, policy.probabilities(obs, mask[0]), atol=0.01)
    assert counts[1] == 0
    assert len(set(drawn.tolist())) > 1
    np.testing.assert_array_equal(Policy(path, seed=3).predict(batch, action_masks=mask)[0], drawn)


def test_values_have_no_distribution() -> None:
    """A policy of DQN takes the best action also where one is drawn, as SB3's DQNPolicy."""
    policy = Policy(CARTPOLE / "dqn.safetensors")
    batch = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    np.testing.assert_array_equal(policy.predict(batch)[0], policy.scores(batch).argmax(axis=1))
    with pytest.raises(InvalidArgumentError, match=r"\(dqn, actions discrete\) has no probabilities; use scores"):
        policy.probabilities(batch)


def test_continuous_actions_stay_in_the_box() -> None:
    """One observation is answered as in a batch, and drawn actions spread around the mean."""
    policy = Policy(PRETRAINED / "k8s-LRAPricing-v0" / "ppo.safetensors", seed=1)
    batch = np.random.default_rng(2).normal(size=(256, 10)).astype(np.float32) * 3
    actions, _ = policy.predict(batch, deterministic=True)
    space = policy.action_space
    for obs, action in zip(batch[:20], actions, strict=False):
        assert space.contains(action)
        np.testing.assert_allclose(policy(obs), action, rtol=0, atol=1e-6)
    drawn, _ = policy.predict(np.repeat(batch[:1], 20_000, axis=0))
    inside = np.abs(actions[0]) < 0.5
    assert all(space.contains(action) for action in drawn[:50])
    assert drawn.std(axis=0).min() > 0
    if inside.any():
        np.testing.assert_allclose(drawn.mean(axis=0)[inside], actions[0][inside], atol=0.1)


def test_state_is_the_callers() -> None:
    """The state of the step before, and zeros where an episode starts."""
    policy = Policy(CARTPOLE / "ppo_lstm.safetensors")
    batch = np.random.default_rng(4).normal(size=(2, 4)).astype(np.float32)
    first = policy.scores(batch)
    _, state = policy.predict(batch, deterministic=True)
    assert [part.shape for part in state] == [(1, 2, 64)] * 2
    second = policy.scores(batch, state)
    assert np.abs(second - first).min() > 1e-6
    restarted = policy.scores(batch, state, [True, False])
    np.testing.assert_array_equal(restarted[0], first[0])
    np.testing.assert_array_equal(restarted[1], second[1])
    with pytest.raises(InvalidArgumentError, match="has an LSTM, whose state a call would lose; use action, state"):
        policy(batch[0])
    with pytest.raises(
        InvalidArgumentError, match=r"shapes \[\(1, 2, 64\), \(1, 2, 64\)\], want \(h, c\) of \(1, 1, 64\)"
    ):
        policy.predict(batch[0], state)


def test_converts_other_numbers() -> None:
    policy = Policy(CARTPOLE / "ppo.safetensors")
    for obs in ([0, 0, 0.1, 0.5], np.array([0, 0, 0.1, 0.5]), np.array([0, 0, 1, 2])):
        assert policy(obs) == 1
    assert policy(np.array([0, 0, 1e30, 0], np.float32)) == 1


NAN = np.array([0, 0, np.nan, 0], np.float32)
INF = np.array([np.inf, 0, 0, 0], np.float32)
ZERO = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("model", "obs", "mask", "message"),
    [
        ("ppo", np.zeros(3, np.float32), None, r"shape \(3,\), want \(4,\), or \(N, …\) of a batch"),
        ("ppo", np.zeros((0, 4), np.float32), None, r"shape \(0, 4\)"),
        ("ppo", np.zeros(1, np.float32), None, r"shape \(1,\)"),
        ("ppo", np.array(["a"] * 4), None, "dtype <U1, want float32 or other real numbers"),
        ("ppo", ZERO.astype(complex), None, "dtype complex128"),
        ("ppo", {"obs": ZERO}, None, "dtype object"),
        ("ppo", NAN, None, "has nan at 2, want finite numbers"),
        ("dqn", NAN, None, "has nan at 2"),
        ("ppo", INF, None, "has inf at 0, want finite numbers"),
        ("dqn", INF, None, "has inf at 0"),
        ("ppo", INF, np.ones(2, np.int8), "has inf at 0"),
        ("ppo", ZERO, np.ones(3, np.int8), r"mask has the shape \(3,\) and dtype int8, want 2"),
        ("ppo", ZERO, np.zeros(2, np.int8), "mask permits none of elements 0 to 1"),
    ],
)  # fmt: skip
def test_refuses(model: str, obs: object, mask: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Policy(CARTPOLE / f"{model}.safetensors")(obs, mask)


def test_refuses_infinity_before_it_is_bounded() -> None:
    """A model that normalizes its observations bounds them, too."""
    policy = Policy(CARTPOLE.parent / "k8s-GangForecast-v0" / "ppo.safetensors")
    obs = np.zeros(policy.observation_space.shape, np.float32)
    policy(obs)
    obs.flat[1] = -np.inf
    with pytest.raises(InvalidArgumentError, match="has -inf at 1, want finite numbers"):
        policy(obs)


def test_refuses_dicts_without_a_part() -> None:
    policy = Policy(BALANCE / "ppo.safetensors")
    with pytest.raises(InvalidArgumentError, match=r"is a dict with \['nodes'\], want a dict with \[.*'nodes'.*\]"):
        policy({"nodes": np.zeros(3)})
    with pytest.raises(InvalidArgumentError, match="the observation is ndarray, want a dict"):
        policy(np.zeros(167))


def rewrite(source: Path, target: Path, change: dict[str, object]) -> Path:
    """Copies a model file, as format 1, which needs no digest, with other entries in its description."""
    data = source.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    meta = json.loads(header["__metadata__"]["kubernasium"]) | {"format": 1} | change
    header["__metadata__"] = {"kubernasium": json.dumps(meta)}
    text = json.dumps(header).encode()
    target.write_bytes(len(text).to_bytes(8, "little") + text + data[begin:])
    return target


def test_refuses_files(tmp_path: Path) -> None:
    """What is no model, is altered, or holds what this version does not know."""
    source, target = CARTPOLE / "ppo.safetensors", tmp_path / "m.safetensors"
    assert Policy(rewrite(source, target, {}))(np.array([0, 0, 0.1, 0.5], np.float32)) == 1
    spec = Policy(source).meta["spec"]
    for change, message in (
        ({"algo": "sac"}, "learned by 'sac', which this version does not know.*export --onnx"),
        ({"spec": spec | {"transformer": {}}}, "network with 'transformer', which this version does not know"),
        ({"format": 3}, "format 3, this version reads 1 to 2"),
    ):
        with pytest.raises(ModelError, match=message):
            Policy(rewrite(source, target, change))
    data = bytearray(source.read_bytes())
    for content, message in (
        (data[:-4], "no whole safetensors file"),
        (data[:-1] + b"?", "was altered"),
        (b"x", "no whole"),
    ):
        target.write_bytes(content)
        with pytest.raises(ModelError, match=message):
            Policy(target)
    with pytest.raises(FileNotFoundError):
        Policy(tmp_path / "none")


def test_needs_numpy_alone() -> None:
    """Neither Gymnasium, PyTorch nor safetensors is imported."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'safetensors'])); import kubernasium; "
        f"p = kubernasium.Policy({str(CARTPOLE / 'ppo.safetensors')!r}); import numpy as np; "
        "print(p(np.array([0, 0, 0.1, 0.5], np.float32)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
