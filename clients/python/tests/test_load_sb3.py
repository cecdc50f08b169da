"""Models of the native trainer in Stable-Baselines3. That they act alike, a Go test tells."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy

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
    mean, std = evaluate_policy(model, gymnasium.make("CartPole-v1"), n_eval_episodes=3, warn=False)
    assert (mean, std) == (500.0, 0.0)


def test_every_pretrained_model(pretrained: Path) -> None:
    """Each loads, or is refused for what Stable-Baselines3 does not have."""
    loaded, refused = set(), []
    for path in sorted(pretrained.glob("*/*.safetensors")):
        try:
            model = load(path)
        except ModelError as err:
            refused.append(str(err))
            continue
        obs = model.observation_space.sample().clip(-10, 10)  # CartPole's bounds let float32 overflow
        actions, _ = model.predict(obs[None], deterministic=True)
        assert model.action_space.contains(actions[0]), path
        loaded.add(f"{path.parent.name}/{path.stem}")
    for env in ("classic-CartPole-v1", "k8s-GangWindow-v0"):
        assert {f"{env}/{algo}" for algo in ("ppo", "a2c", "dqn")} <= loaded
    for message in refused:
        assert re.search("was learned by|Policy|norm_obs|dueling|normaliz|Box", message), message


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
        ({"algo": "dqn"}, "no dueling networks"),
        ({"spec": {**meta["spec"], "heads": meta["spec"]["heads"][:1]}}, "MlpPolicy has not"),
        ({"observation_space": json.dumps(box)}, "want a Box"),
        ({"algo": "ppo_lstm"}, "learned by 'ppo_lstm'"),
        ({"config": {"policy": "SAGEPolicy"}}, "has a SAGEPolicy"),
        (
            {"metadata": {"normalize": '{"norm_obs":true,"norm_reward":false,"clip_obs":10,"clip_reward":0}'}},
            "norm_obs",
        ),
        (
            {"spec": {**meta["spec"], "towers": [{**t, "layer_norm": True} for t in meta["spec"]["towers"]]}},
            "layer_norm",
        ),
    ):
        with pytest.raises(ModelError, match=message):
            load(rewrite(path, target, **changes))
