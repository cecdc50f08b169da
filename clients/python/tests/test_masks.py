"""Action masks for RLlib and Tianshou: a masked action is never taken, and values come unharmed."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from kubernasium import errors, rllib, tianshou
from kubernasium.wrappers import ActionMaskObservation

POD_BALANCE = {"nodes": 5, "cpu_load": 0.1}


def full_cluster(make) -> gymnasium.Env:
    """An environment that fills up, so that its mask forbids nodes."""
    return make("k8s/GPUPodScheduling-v0", num_nodes=4)


@pytest.mark.parametrize(
    ("library", "obs_key", "mask_key"), [(rllib, "observations", "action_mask"), (tianshou, "obs", "mask")]
)
def test_observations_hold_the_mask_of_info(library, obs_key: str, mask_key: str) -> None:
    with full_cluster(library.make) as env, full_cluster(gymnasium.make) as bare:
        obs, _ = env.reset(seed=3)
        theirs, info = bare.reset(seed=3)
        rng, masked = np.random.default_rng(0), 0
        for _ in range(200):
            assert list(obs) == [obs_key, mask_key]
            assert obs in env.observation_space
            assert obs[mask_key].dtype == np.float32
            np.testing.assert_array_equal(obs[mask_key], info["action_mask"])
            np.testing.assert_array_equal(obs[obs_key], gymnasium.spaces.flatten(bare.observation_space, theirs))
            masked += int((obs[mask_key] == 0).sum())
            action = rng.choice(np.flatnonzero(obs[mask_key]))
            obs, _, terminated, truncated, _ = env.step(action)
            theirs, _, _, _, info = bare.step(action)
            if terminated or truncated:
                obs, _ = env.reset()
                theirs, info = bare.reset()
        assert masked > 0


def test_check_env() -> None:
    with rllib.make("k8s/PodBalance-v0", **POD_BALANCE) as env:
        check_env(env, skip_render_check=True)


def test_an_environment_without_masks_is_refused() -> None:
    with (
        gymnasium.make("k8s/VerticalPodAutoscaler-v0") as env,
        pytest.raises(errors.InvalidOptionError, match="no action mask"),
    ):
        ActionMaskObservation(env)


def test_rllib_passes_env_config_on_as_options() -> None:
    from ray.tune.registry import ENV_CREATOR, _global_registry

    creator = _global_registry.get(ENV_CREATOR, rllib.register("k8s/PodBalance-v0"))
    with creator(POD_BALANCE) as env:
        assert env.action_space.n == POD_BALANCE["nodes"]


def test_rllib_module_masks_its_distribution() -> None:
    from ray.rllib.core.columns import Columns

    with rllib.make("k8s/PodBalance-v0", **POD_BALANCE) as env:
        module = rllib.MaskedPPOModule(
            observation_space=env.observation_space, action_space=env.action_space, model_config={}
        )
        obs, _ = env.reset(seed=0)
    flat = torch.as_tensor(np.stack([obs["observations"]] * 2))
    some, all_ = torch.tensor([0.0, 1, 0, 0, 1]), torch.ones(5)
    batch = {Columns.OBS: {"observations": flat, "action_mask": torch.stack([some, all_])}}
    for forward in (module.forward_inference, module.forward_exploration, module.forward_train):
        logits = forward(dict(batch))[Columns.ACTION_DIST_INPUTS]
        probabilities = torch.softmax(logits, dim=-1)
        assert probabilities[0, [0, 2, 3]].tolist() == [0, 0, 0]
        assert probabilities[0, [1, 4]].sum().item() == pytest.approx(1)
        assert (probabilities[1] > 0).all()  # nothing is masked there, and the logits are the network's
        torch.testing.assert_close(logits[0, [1, 4]], logits[1, [1, 4]])
    assert module.compute_values(dict(batch)).shape == (2,)


def test_tianshou_actor_masks_its_distribution() -> None:
    from tianshou.data import Batch
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

    torch.manual_seed(0)
    net = Net(state_shape=(7,), hidden_sizes=[8])
    actor = DiscreteActor(preprocess_net=net, action_shape=5, softmax_output=False)
    obs = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    mask = np.array([[0, 1, 0, 0, 1], [1, 1, 1, 1, 1]], np.float32)
    batch = Batch(obs=obs, mask=mask)
    logits, _ = tianshou.MaskedActor(actor)(batch)
    assert torch.softmax(logits, dim=-1)[0, [0, 2, 3]].tolist() == [0, 0, 0]
    torch.testing.assert_close(logits[torch.as_tensor(mask) > 0], actor(obs)[0][torch.as_tensor(mask) > 0])
    critic = DiscreteCritic(preprocess_net=net)
    torch.testing.assert_close(tianshou.Unmasked(critic)(batch), critic(obs))


def test_tianshou_collects_permitted_actions_alone() -> None:
    """Tianshou's own DQN takes the mask of `make`, also where it explores."""
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.data import Batch
    from tianshou.utils.net.common import Net

    with full_cluster(tianshou.make) as env:
        observations, actions = env.observation_space["obs"], env.action_space
        net = Net(state_shape=observations.shape, action_shape=actions.n, hidden_sizes=[8])
        policy = DiscreteQLearningPolicy(
            model=net, action_space=actions, observation_space=observations, eps_training=0.5, eps_inference=0.5
        )
        obs, _ = env.reset(seed=3)
        for _ in range(100):
            batch = Batch(obs=Batch(obs=obs["obs"][None], mask=obs["mask"][None]), info=Batch())
            action = policy.add_exploration_noise(policy(batch).act, batch)[0]
            assert obs["mask"][action] == 1
            obs, _, terminated, truncated, info = env.step(action)
            assert "invalid" not in info
            if terminated or truncated:
                obs, _ = env.reset()
