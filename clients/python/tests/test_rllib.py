"""RLlib's new API stack on servers: masks, Dict observations, and servers that are killed in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import ray
import torch
from gymnasium import spaces
from gymnasium.vector.utils import iterate
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS, QF_TARGET_NEXT_PREDS
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_runner import NUM_ENV_STEP_FAILURES_LIFETIME

from kubernasium import rllib
from kubernasium.flatten import FlatFrames
from kubernasium.launcher import Server

BALANCE = "k8s/PodBalance-v0"
OPTIONS = {"nodes": 5, "cpu_load": 0.1}
PPO = {"train_batch_size_per_learner": 128, "minibatch_size": 64, "num_epochs": 1}
DQN = {"num_steps_sampled_before_learning_starts": 64, "target_network_update_freq": 64}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on this machine."""
    niceness = {"RAY_worker_niceness": "0"}  # workers starve where tests keep all cores busy
    os.environ.update(niceness)
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def sampled(result: dict[str, Any]) -> float:
    return result["env_runners"]["num_env_steps_sampled_lifetime"]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("algo", "reconnect"), [("ppo", 600.0), ("dqn", 0.0)])
def test_a_killed_server_costs_no_runner(algo: str, reconnect: float) -> None:
    """Two runners play on two servers, one of which is killed. Both continue, and so does the training.

    A client that connects again makes the environments of the dead server on the other, and RLlib sees no failure. One
    that does not leaves it to RLlib to make all environments again.
    """
    servers = [Server(args=["--listen", "127.0.0.1:0"]) for _ in range(2)]
    config: Any = PPOConfig().training(**PPO) if algo == "ppo" else DQNConfig().training(**DQN)
    config = rllib.configure(
        config,
        BALANCE,
        num_env_runners=2,
        num_envs=4,
        reconnect=reconnect,
        url=[server.ws_url for server in servers],
        weights=[1, 1],
        **OPTIONS,
    ).reporting(min_sample_timesteps_per_iteration=64)
    algorithm = config.build_algo()
    try:
        before = algorithm.train()
        os.kill(servers[0].pid, signal.SIGKILL)
        steps, failures = sampled(before), 0.0
        for _ in range(4):
            result = algorithm.train()
            assert sampled(result) > steps  # it does not stall
            steps = sampled(result)
            failures = max(failures, result["env_runners"].get(NUM_ENV_STEP_FAILURES_LIFETIME, 0.0))
            assert algorithm.env_runner_group.num_healthy_remote_workers() == 2
        assert algorithm.env_runner_group.num_remote_worker_restarts() == 0
        assert (failures == 0) == (reconnect > 0)
        assert len(result["learners"]) > 0
    finally:
        algorithm.stop()
        for server in servers:
            server.stop()


def test_runner_env_flattens_and_adds_masks() -> None:
    """Its rows are observations of `rllib.make`, whose mask comes from a wrapper, through the end of an episode."""
    with (
        rllib.RunnerEnv(BALANCE, 2, max_episode_steps=4, **OPTIONS) as envs,
        rllib.RunnerEnv(BALANCE, 2, masks=False, max_episode_steps=4, **OPTIONS) as bare,
        rllib.make(BALANCE, max_episode_steps=4, **OPTIONS) as masked,
    ):
        assert envs.single_observation_space == masked.observation_space
        assert bare.single_observation_space == masked.observation_space["observations"]
        obs, infos = envs.reset(seed=1)
        flat, _ = bare.reset(seed=1)
        want, _ = masked.reset(seed=1)
        assert infos == {}
        ended = False
        while True:
            assert obs in envs.observation_space
            assert flat in bare.observation_space
            for key in ("observations", "action_mask"):
                np.testing.assert_array_equal(obs[key][0], want[key], strict=True)
            np.testing.assert_array_equal(flat[0], want["observations"], strict=True)
            if ended:
                break
            action = int(np.flatnonzero(want["action_mask"])[-1])
            obs, _, terminated, truncated, infos = envs.step(np.array([action, 0]))
            flat, *_ = bare.step(np.array([action, 0]))
            want, *_ = masked.step(action)
            ended = terminated[0] or truncated[0]
            assert infos == {}


def test_runner_env_keeps_observations() -> None:
    with pytest.raises(ValueError, match="copy=False in RLlib"):
        rllib.RunnerEnv(BALANCE, 2, copy=False)


@pytest.mark.parametrize("env_id", [BALANCE, "k8s/GPUPodScheduling-v1", "k8s/GangWindow-v0"])
@pytest.mark.parametrize("infos", [[], ["some"]])
def test_runner_env_reads_frames_with_equal_bits(env_id: str, infos: list[str]) -> None:
    """It reads observations from frames without infos, from batches with infos: with the rows of a plain vector."""
    n = 3
    with (
        rllib.RunnerEnv(env_id, n, infos=infos, max_episode_steps=6) as envs,
        gymnasium.make_vec(env_id, n, max_episode_steps=6) as plain,
    ):
        space = plain.single_observation_space
        envs.reset(seed=2)
        plain.reset(seed=2)
        rng, kept, wanted = np.random.default_rng(0), [], []
        for _ in range(15):
            actions = rng.integers(0, 2, n)
            kept.append(envs.step(actions))
            obs, *rest, info = plain.step(actions)
            flat = np.array([spaces.flatten(space, row) for row in iterate(plain.observation_space, obs)])
            mask = info.get("action_mask", np.ones((n, plain.single_action_space.n))).astype(np.float32)
            wanted.append((flat, mask, *rest))
        for (obs, *rest, _), (flat, mask, *want) in zip(kept, wanted, strict=True):
            np.testing.assert_array_equal(obs["observations"].view(np.uint32), flat.view(np.uint32), strict=True)
            np.testing.assert_array_equal(obs["action_mask"], mask, strict=True)
            for got, column in zip(rest, want, strict=True):
                np.testing.assert_array_equal(got, column, strict=True)
        readers = {type(layout.reader) for layout in envs.vector._layouts.values()} - {type(None)}
        assert readers == (set() if infos else {FlatFrames})


def test_no_masks() -> None:
    """Spaces and algorithms without masks are refused, with what to do."""
    with pytest.raises(ValueError, match="masks=False"):
        rllib.mask_size(gymnasium.spaces.Box(0, 1))
    with pytest.raises(ValueError, match="masks=False"):
        rllib.configure(IMPALAConfig(), BALANCE)
    assert rllib.mask_size(gymnasium.spaces.MultiDiscrete([2, 3])) == 5


def test_runner_env_keeps_few_infos() -> None:
    """The diagnostics that were asked for, of the steps of `VectorEnv`."""
    actions = np.array([0, 1])
    with (
        rllib.RunnerEnv(BALANCE, 2, infos=["imbalance"], **OPTIONS) as few,
        gymnasium.make_vec(BALANCE, 2, **OPTIONS) as all_,
    ):
        for got, want in ((few.reset(seed=1), all_.reset(seed=1)), (few.step(actions), all_.step(actions))):
            assert set(got[-1]) == {"imbalance", "_imbalance"}
            for key in got[-1]:
                np.testing.assert_array_equal(got[-1][key], want[-1][key])


@pytest.mark.parametrize("dueling", [True, False])
def test_dqn_module_takes_no_masked_action(dueling: bool) -> None:
    """Neither its best actions, nor its random ones, nor those of its targets are masked; losses are finite."""
    with rllib.make(BALANCE, **OPTIONS) as env:
        settings = DQNConfig().model_config | {
            "dueling": dueling, "double_q": True, "num_atoms": 1, "epsilon": 1.0, "std_init": 0.1,
        }  # fmt: skip
        module = rllib.MaskedDQNModule(
            observation_space=env.observation_space, action_space=env.action_space, model_config=settings
        )
        module.make_target_networks()
        obs, _ = env.reset(seed=0)
    flat = torch.as_tensor(np.stack([obs["observations"]] * 300))
    mask = torch.tensor([0.0, 1, 0, 0, 1]).repeat(300, 1)
    batch = {Columns.OBS: {"observations": flat, "action_mask": mask}}
    assert set(module.forward_exploration(dict(batch), t=0)[Columns.ACTIONS].tolist()) == {1, 4}
    assert set(module.forward_inference(dict(batch))[Columns.ACTIONS].tolist()) <= {1, 4}
    out = module.forward_train(batch | {Columns.NEXT_OBS: batch[Columns.OBS]})
    for key in (QF_PREDS, QF_TARGET_NEXT_PREDS):
        assert torch.isinf(out[key][:, [0, 2, 3]]).all()
        assert torch.isfinite(out[key][:, [1, 4]]).all()
