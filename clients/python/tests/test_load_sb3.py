"""Models of the native trainer in Stable-Baselines3. A Go test checks that they act alike."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from kubernasium.load_sb3 import LinearSchedule, ModelError, load, read
from kubernasium.sb3 import VecEnv

torch.set_num_threads(1)  # networks this small are slower with more

CARTPOLE = "classic-CartPole-v1"
CLASSES = {"ppo": PPO, "a2c": A2C, "dqn": DQN}


@pytest.fixture
def pretrained(root: Path) -> Path:
    """The folder of the models that the repository ships."""
    return root.parent.parent / "models" / "pretrained"


def rewrite(source: Path, target: Path, **changes: object) -> Path:
    """Copies a model file with other entries in its description."""
    meta, tensors = read(source)
    meta = {**meta, "format": 1, **changes}  # which needs no digest
    save_file(tensors, target, {"kubernasium": json.dumps(meta)})
    return target


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_keeps_gymnasiums_pole_up(pretrained: Path, algo: str) -> None:
    """A model that Go has learned on its own CartPole, in SB3's policy, on Gymnasium's."""
    model = load(pretrained / CARTPOLE / f"{algo}.safetensors")
    assert type(model) is CLASSES[algo]
    assert model.num_timesteps > 0
    mean, _ = evaluate_policy(model, make_vec_env("CartPole-v1", seed=1), n_eval_episodes=10, warn=False)
    assert mean >= gymnasium.spec("CartPole-v1").reward_threshold


def test_every_pretrained_model(pretrained: Path, tmp_path: Path) -> None:
    """Each loads, also from the zip file that SB3 makes of it; only the forecaster is no policy."""
    refused = {}
    for path in sorted(pretrained.glob("*/*.safetensors")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a further training lacks
            try:
                model = load(path)
            except ModelError as err:
                refused[f"{path.parent.name}/{path.stem}"] = str(err)
                continue
        model.save(tmp_path / "m.zip")
        again = type(model).load(tmp_path / "m.zip", device="cpu")
        model.observation_space.seed(1)
        for _ in range(3):
            obs = model.observation_space.sample()
            if isinstance(obs, np.ndarray):
                obs = obs.clip(-10, 10)  # CartPole's bounds let float32 overflow
            action, _ = model.predict(obs, deterministic=True)
            assert model.action_space.contains(action if action.shape else int(action)), path
            np.testing.assert_array_equal(again.predict(obs, deterministic=True)[0], action, str(path))
    assert list(refused) == ["k8s-VerticalPodAutoscaler-v0/lstm_forecaster"]
    assert "is no policy" in refused["k8s-VerticalPodAutoscaler-v0/lstm_forecaster"]


@pytest.mark.parametrize("algo", ["ppo", "a2c", "dqn", "ppo_lstm"])
def test_trains_on_over_nodes(pretrained: Path, algo: str) -> None:
    """A policy over nodes learns in SB3: every parameter that its loss reaches moves."""
    path = pretrained / "k8s-PodBalance-v0" / f"{algo}.safetensors"
    meta, _ = read(path)
    with VecEnv(meta["env"], 2, seed=0, **(meta.get("env_kwargs") or {})) as envs:
        arguments = {"learning_starts": 4, "buffer_size": 64} if algo == "dqn" else {"n_steps": 16}
        model = load(path, envs, **arguments, **({} if algo in ("a2c", "dqn") else {"batch_size": 16}))
        before = {name: value.clone() for name, value in model.policy.named_parameters()}
        model.learn(64)
        still = [name for name, value in model.policy.named_parameters() if torch.equal(before[name], value)]
        # A softmax over nodes does not change with a bias that all share: its gradient is rounding error, or 0.
        shared = [] if algo == "dqn" else ["action_net.bias"]
        assert [name for name in still if not name.startswith("q_net_target.") and name not in shared] == []


def test_normalized_observations(pretrained: Path) -> None:
    """A model with norm_obs sees what VecNormalize would show it, by the file's statistics."""
    path = pretrained / "k8s-VerticalPodAutoscaler-v0" / "ppo.safetensors"
    model, (_, tensors) = load(path), read(path)
    obs = np.random.default_rng(0).normal(size=(20, 45)).astype(np.float32) * 3
    mean, variance = (tensors[f"state.obs_rms.{name}"].numpy() for name in ("mean", "var"))
    want = ((obs - mean) / np.sqrt(variance + 1e-8)).clip(-10, 10)
    got = model.policy.extract_features(torch.from_numpy(obs))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-6)


def test_hyperparameters(pretrained: Path) -> None:
    """Those of the tuned file: RL Zoo's for CartPole."""
    model = load(pretrained / CARTPOLE / "ppo.safetensors", gamma=0.5)
    assert (model.n_steps, model.batch_size, model.n_epochs, model.gae_lambda, model.gamma) == (32, 256, 20, 0.8, 0.5)
    assert model.lr_schedule(0.25) == pytest.approx(0.00025)
    assert model.clip_range(0.5) == pytest.approx(0.1)
    assert model.clip_range_vf is None
    assert model.target_kl is None
    assert LinearSchedule(2.0)(0.25) == 0.5


def test_trains_on(pretrained: Path) -> None:
    with VecEnv("classic/CartPole-v1", 8, seed=0) as envs:
        model = load(pretrained / CARTPOLE / "ppo.safetensors", envs)
        before = {name: value.clone() for name, value in model.policy.state_dict().items()}
        model.learn(512)
        after = model.policy.state_dict()
        assert any(not torch.equal(before[name], after[name]) for name in before)
        with pytest.raises(ModelError, match="the environment has"):
            load(next((pretrained / "k8s-GangWindow-v0").glob("*.safetensors")), envs)


def test_warns_of_what_further_training_lacks(pretrained: Path, tmp_path: Path) -> None:
    """Rewards were normalized, or the update has a part that SB3 lacks."""
    path = pretrained / CARTPOLE / "ppo.safetensors"
    config = read(path)[0]["config"]
    env = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])

    def warned(envs: object = None, **changes: object) -> list[str]:
        model = rewrite(path, tmp_path / "m.safetensors", config=config | changes)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            load(model, envs, batch_size=32)
        return [str(w.message) for w in caught]

    assert warned(env) == []
    assert "lacks exploration_decay and clip_vloss" in warned(clip_vloss=True, exploration_decay=0.99)[0]
    assert "normalized rewards" in warned(env, norm_reward=True)[0]
    assert "normalized rewards" in warned(VecNormalize(env, norm_reward=False), norm_reward=True)[0]
    assert warned(VecNormalize(env, norm_obs=False), norm_reward=True) == []
    assert warned(norm_reward=True) == []  # to play


def test_command(pretrained: Path, tmp_path: Path) -> None:
    """The zip file is one of SB3's own."""
    command = [sys.executable, "-m", "kubernasium.load_sb3"]
    path = pretrained / CARTPOLE / "a2c.safetensors"
    output = subprocess.run([*command, path, tmp_path / "m.zip"], check=True, capture_output=True, text=True).stdout
    assert "A2C, " in output
    model, ours = A2C.load(tmp_path / "m.zip"), load(path)
    obs = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    np.testing.assert_array_equal(model.predict(obs, deterministic=True)[0], ours.predict(obs, deterministic=True)[0])
    done = subprocess.run(
        [*command, tmp_path / "m.zip", tmp_path / "n.zip"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no whole safetensors file" in done.stderr


def other_actions(source: Path, target: Path, action_space: dict[str, object], outputs: int, *, gaussian: bool) -> Path:
    """Makes a model of source that has other actions, with weights drawn at random."""
    meta, tensors = read(source)
    heads = json.loads(json.dumps(meta["spec"]["heads"]))
    heads[0]["size"] = outputs
    tensors = {name: t for name, t in tensors.items() if not name.startswith(("state.", "optimizer."))}
    torch.manual_seed(1)
    tensors["action_net.weight"] = torch.randn(outputs, tensors["action_net.weight"].shape[1])
    tensors["action_net.bias"] = torch.randn(outputs)
    if gaussian:
        heads.append({"name": "log_std", "tower": 0, "size": outputs, "gain": 0, "free": True, "value": -0.5})
        tensors["log_std"] = torch.full((outputs,), -0.5)
    meta = {**meta, "format": 1, "action_space": json.dumps(action_space), "spec": {**meta["spec"], "heads": heads}}
    save_file(tensors, target, {"kubernasium": json.dumps(meta)})
    return target


def test_other_actions(pretrained: Path, tmp_path: Path) -> None:
    """Greedy actions of a Gaussian and of a multi-discrete policy are those of the parameters."""
    source, target = pretrained / CARTPOLE / "ppo.safetensors", tmp_path / "m.safetensors"
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)

    def heads(path: Path) -> np.ndarray:
        _, tensors = read(path)
        x = torch.from_numpy(obs)
        for layer in ("0", "2"):
            name = f"mlp_extractor.policy_net.{layer}"
            x = torch.tanh(x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"])
        return (x @ tensors["action_net.weight"].T + tensors["action_net.bias"]).numpy()

    box = {"kind": "box", "shape": [2], "dtype": "float32", "low": [-1], "high": [1]}
    path = other_actions(source, target, box, 2, gaussian=True)
    actions, _ = load(path).predict(obs, deterministic=True)
    np.testing.assert_allclose(actions, heads(path).clip(-1, 1), atol=1e-5)
    assert load(path).policy.log_std.tolist() == [-0.5, -0.5]
    parts = {"kind": "multi_discrete", "n": [2, 3], "shape": [2], "dtype": "int64"}
    path = other_actions(source, target, parts, 5, gaussian=False)
    actions, _ = load(path).predict(obs, deterministic=True)
    logits = heads(path)
    np.testing.assert_array_equal(actions, np.stack([logits[:, :2].argmax(1), logits[:, 2:].argmax(1)], 1))


def test_refuses(pretrained: Path, tmp_path: Path) -> None:
    path = pretrained / CARTPOLE / "ppo.safetensors"
    data = path.read_bytes()
    meta, tensors = read(path)
    target = tmp_path / "m.safetensors"

    target.write_bytes(data[:-8])
    with pytest.raises(ModelError, match="no whole safetensors file"):
        load(target)
    assert b"tanh" in data
    for altered in (
        data[:-2] + bytes([data[-2] ^ 1]) + data[-1:],
        data.replace(b"tanh", b"relu"),
        data.replace(b'"digest"', b'"digesu"'),
    ):
        target.write_bytes(altered)
        with pytest.raises(ModelError, match="altered: the SHA-256"):
            load(target)
    save_file(tensors, target)
    with pytest.raises(ModelError, match="lack 'kubernasium'"):
        load(target)
    load(rewrite(path, target))
    box = {"kind": "discrete", "n": [4], "start": [0], "shape": [], "low": None, "high": None}
    for changes, message in (
        ({"format": 2}, "altered: the SHA-256"),
        ({"format": 3}, "format 3, this version reads 1 to 2"),
        ({"algo": "sac"}, "learned by 'sac'"),
        ({"algo": "dqn"}, "which no policy of dqn has"),
        ({"spec": {**meta["spec"], "heads": meta["spec"]["heads"][:1]}}, "which no policy of ppo has"),
        ({"observation_space": json.dumps(box)}, "want Boxes"),
        ({"algo": "ppo_lstm"}, "which no policy of ppo_lstm has"),
        ({"spec": {**meta["spec"], "towers": [{**t, "activation": "gelu"} for t in meta["spec"]["towers"]]}}, "'gelu'"),
    ):
        with pytest.raises(ModelError, match=message):
            load(rewrite(path, target, **changes))
