"""Records the datasets beside this file, with Minari 0.5.4: MINARI_DATASETS_PATH=. python record.py."""

import gymnasium
import minari
import numpy as np
from gymnasium import spaces


class Toy(gymnasium.Env):
    """Counts steps; its observation, mask and reward follow from their number."""

    observation_space = spaces.Dict({"z": spaces.Box(-1, 1, (2, 2), np.float32), "a": spaces.Discrete(3)})
    action_space = spaces.Discrete(2)
    end = 0
    steps = 0

    def _observation(self):
        z = np.array([[0, 0.0625], [0.125, 0.1875]], np.float32)
        return {"z": np.float32(self.steps / 4) + z, "a": self.steps % 3}

    def _info(self):
        return {"action_mask": np.array([1, self.steps % 2], np.int8)}

    def reset(self, *, seed=None, options=None):
        """Starts an episode."""
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), self._info()

    def step(self, action):
        """Counts."""
        self.steps += 1
        return self._observation(), 0.1 * self.steps, self.steps == self.end, False, self._info()


class Pair(Toy):
    """Has float64 observations, MultiDiscrete actions and no mask."""

    observation_space = spaces.Box(-np.inf, 1, (2,), np.float64)
    action_space = spaces.MultiDiscrete([2, 3])

    def _observation(self):
        return np.array([self.steps, -self.steps]) / 8.0

    def _info(self):
        return {}


env = minari.DataCollector(Toy(), record_infos=True, data_format="arrow")
for length in (3, 2):
    env.unwrapped.end = length
    env.reset(seed=length)
    for step in range(length):
        env.step(step % 2)
env.create_dataset("toy-v0", algorithm_name="alternating")

env = minari.DataCollector(Pair(), data_format="arrow")
for actions in ([1, 2], [0, 1]), ([1, 0],):  # episodes that the next reset cuts off
    env.reset()
    for action in actions:
        env.step(np.array(action))
env.create_dataset("multi-v0")
