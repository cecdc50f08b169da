"""RLlib's env runner beside the client itself, over the same wire: environment steps per second.

Four loops take turns, on vectors at one server, all by the same wire: a unix socket with shared memory, as with the
package's own server, or WebSocket:

- direct: `VectorEnv.step` with actions drawn beforehand, one call after the other; observations are kept for a round,
  as RLlib keeps them in its episodes
- direct, other work between: the same with a millisecond of Python between the calls, of which every learner does some:
  after that a call finds the caches cold
- steps of the runner: the same, but only the time within `env.step` of RLlib's env runner, so that neither policy nor
  connectors nor RLlib's episodes count
- sample of the runner: `sample(random_actions=True)`, all that RLlib does without a policy

Medians of interleaved rounds; run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from kubernasium.launcher import Server
from kubernasium.rllib import configure
from kubernasium.vector import VectorEnv

LOOPS = ("direct", "direct, other work between", "steps of the runner", "sample of the runner")


class Timed:
    """Counts the time and the calls of a vector's `step`."""

    def __init__(self, step: Callable[[Any], Any]) -> None:
        """Takes the step to count."""
        self._step, self.seconds, self.cpu, self.calls = step, 0.0, 0.0, 0

    def __call__(self, actions: Any) -> Any:
        """Steps."""
        begin, cpu = time.perf_counter(), time.process_time()
        result = self._step(actions)
        self.seconds += time.perf_counter() - begin
        self.cpu += time.process_time() - cpu
        self.calls += 1
        return result


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="k8s/GPUPodScheduling-v1")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=100, help="of step, in each turn")
    parser.add_argument("--wire", choices=("unix", "ws"), default="unix", help="of all loops")
    args = parser.parse_args()
    n = args.envs
    with Server(args=["--listen", "127.0.0.1:0"]) as server:
        url = server.url if args.wire == "unix" else server.ws_url
        config = configure(PPOConfig(), args.env, num_env_runners=0, num_envs=n, masks=True, url=url)
        runner = SingleAgentEnvRunner(config=config)
        timed = runner.env.step = Timed(runner.env.step)
        rates: dict[str, list[float]] = {name: [] for name in LOOPS}
        cpu: dict[str, list[float]] = {name: [] for name in rates}
        with VectorEnv(args.env, n, url=url) as envs:
            envs.reset(seed=0)
            direct, between = Timed(envs.step), Timed(envs.step)
            actions = [np.asarray(envs.action_space.sample()) for _ in range(args.calls)]
            runner.sample(num_timesteps=10 * n, random_actions=True)
            for _ in range(args.rounds):
                for counted in (direct, between, timed):
                    counted.seconds, counted.cpu, counted.calls = 0.0, 0.0, 0
                kept = [direct(batch)[:4] for batch in actions]
                kept.clear()
                for batch in actions:
                    kept.append(between(batch)[:4])
                    end = time.perf_counter() + 1e-3
                    while time.perf_counter() < end:
                        sorted(range(1000))
                begin, spent = time.perf_counter(), time.process_time()
                runner.sample(num_timesteps=n * args.calls, random_actions=True)
                whole, spent = time.perf_counter() - begin, time.process_time() - spent
                for name, counted in zip(LOOPS, (direct, between, timed), strict=False):
                    rates[name].append(n * counted.calls / counted.seconds)
                    cpu[name].append(counted.cpu / counted.calls)
                rates[LOOPS[-1]].append(n * timed.calls / whole)
                cpu[LOOPS[-1]].append(spent / timed.calls)
        runner.stop()
    print(f"{args.env}, {n} environments, {args.wire}\n")
    print("| | steps/s, median | to direct | to direct, other work between | CPU of the client, µs a call |")
    print("|---|--:|--:|--:|--:|")
    for name, values in rates.items():
        first, second = (
            statistics.median(value / peer for value, peer in zip(values, rates[loop], strict=True))
            for loop in LOOPS[:2]
        )
        used = statistics.median(cpu[name]) * 1e6
        print(f"| {name} | {statistics.median(values):,.0f} | {first:.2f} | {second:.2f} | {used:,.0f} |")


if __name__ == "__main__":
    main()
