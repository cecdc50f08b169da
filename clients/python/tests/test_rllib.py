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
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS, QF_TARGET_NEXT_PREDS
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_runner import NUM_ENV_STEP_FAILURES_LIFETIME

from kubernasium import rllib
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


def test_connector_adds_masks_and_flattens() -> None:
    """Observations of the connector are those of `rllib.make`, whose mask comes from a wrapper."""
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    with rllib.make(BALANCE, **OPTIONS) as masked, gymnasium.make(BALANCE, **OPTIONS) as env:
        connector = rllib.MaskObservation(env.observation_space, env.action_space)
        assert connector.observation_space == masked.observation_space
        episode = SingleAgentEpisode(observation_space=env.observation_space, action_space=env.action_space)
        obs, info = env.reset(seed=1)
        want, _ = masked.reset(seed=1)
        episode.add_env_reset(obs, info)
        connector(rl_module=None, batch={}, episodes=[episode])
        got = episode.get_observations(-1)
        for key in ("observations", "action_mask"):
            np.testing.assert_array_equal(got[key], want[key], strict=True)
        bare = rllib.MaskObservation(env.observation_space, env.action_space, masks=False)
        assert bare.observation_space == masked.observation_space["observations"]
    with pytest.raises(ValueError, match="masks=False"):
        rllib.mask_size(gymnasium.spaces.Box(0, 1))
    with pytest.raises(ValueError, match="masks=False"):
        rllib.configure(IMPALAConfig(), BALANCE)
    assert rllib.mask_size(gymnasium.spaces.MultiDiscrete([2, 3])) == 5


def test_runner_env_keeps_few_infos() -> None:
    """The mask and the diagnostics that were asked for, of the steps of `VectorEnv`."""
    actions = np.array([0, 1])
    with (
        rllib.RunnerEnv(BALANCE, 2, infos=["imbalance"], **OPTIONS) as few,
        gymnasium.make_vec(BALANCE, 2, **OPTIONS) as all_,
    ):
        for got, want in ((few.reset(seed=1), all_.reset(seed=1)), (few.step(actions), all_.step(actions))):
            assert set(got[-1]) == {"action_mask", "_action_mask", "imbalance", "_imbalance"}
            for key in got[-1]:
                np.testing.assert_array_equal(got[-1][key], want[-1][key])
            np.testing.assert_array_equal(got[0]["nodes"], want[0]["nodes"])


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
