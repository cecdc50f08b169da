"""Records episodes of Gymnasium's CartPole-v1 for the tests of package classic.

Run in this folder, with gymnasium==1.4.0 and numpy, to rewrite cartpole.json.gz:

    python record.py

A run is one environment: its first episode is reset with a seed, the following ones go on
with the same random stream. float64 is written as 16 hexadecimal digits of its bits, float32
as 8, an array as the concatenation. `--episodes N --long M -o FILE` records another number
of random and of balanced episodes, for a wider comparison than the one that is committed.
"""

import argparse
import gzip
import json
import platform

import gymnasium as gym
import numpy as np

BASELINES = {
    "lean": lambda x, v, theta, omega: int(theta > 0),
    "pole-angle": lambda x, v, theta, omega: int(theta + 0.5 * omega > 0),
}


def hex64(values) -> str:
    return np.asarray(values, dtype=np.float64).astype(">f8").tobytes().hex()


def hex32(values) -> str:
    return np.asarray(values, dtype=np.float32).astype(">f4").tobytes().hex()


def episode(env, policy, seed=None, options=None) -> dict:
    """Plays one episode.

    Returns:
        The reset's arguments, T actions, rewards and flags, and T+1 states (float64) and
        observations (float32), of which the first are the reset's.
    """
    obs, _ = env.reset(seed=seed, options=options)
    doc = {"seed": seed, "options": options, "actions": "", "rewards": [], "terminated": [], "truncated": []}
    states, observations = hex64(env.unwrapped.state), hex32(obs)
    done = False
    while not done:
        action = policy(env)
        obs, reward, terminated, truncated, _ = env.step(action)
        doc["actions"] += str(action)
        doc["rewards"].append(float(reward))
        doc["terminated"].append(bool(terminated))
        doc["truncated"].append(bool(truncated))
        states += hex64(env.unwrapped.state)
        observations += hex32(obs)
        done = terminated or truncated
    return doc | {"states": states, "obs": observations}


def random_policy(seed: int):
    rng = np.random.default_rng(10_000 + seed)
    return lambda env: int(rng.integers(2))


def balance(env) -> int:
    """A controller of the pole and, weakly, of the cart: it lasts until the time limit."""
    x, v, theta, omega = env.unwrapped.state
    return int(0.1 * x + 0.2 * v + theta + 0.5 * omega > 0)


def run(name: str, plays: list[tuple], **kwargs) -> dict:
    env = gym.make("CartPole-v1", **kwargs)
    return {"name": name, "options": kwargs, "episodes": [episode(env, *play) for play in plays]}


def baseline_lengths(rule, episodes: int) -> list[int]:
    """Returns the lengths of the episodes of seeds 0, 1, ... under rule."""
    env = gym.make("CartPole-v1")
    policy = lambda e: rule(*e.unwrapped.state)
    return [len(episode(env, policy, seed)["actions"]) for seed in range(episodes)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--long", type=int, default=4)
    parser.add_argument("-o", default="cartpole.json.gz")
    args = parser.parse_args()

    runs = [run(f"random seed {s}", [(random_policy(s), s)]) for s in range(args.episodes)]
    runs += [run(f"balanced seed {s}", [(balance, s)]) for s in range(100, 100 + args.long)]
    continued = [(random_policy(7), 7)] + [(random_policy(s),) for s in range(8, 17)]
    runs.append(run("continued", continued))
    wide = {"low": -0.2, "high": 0.15}
    options = [(random_policy(1), 1, wide), (random_policy(2),), (random_policy(3), None, {"high": 0.1}), (random_policy(4), 4, {"low": 1, "high": 1})]
    runs.append(run("reset options", options))
    runs.append(run("sutton_barto_reward", [(random_policy(5), 5), (random_policy(6),)], sutton_barto_reward=True))

    env = gym.make("CartPole-v1")
    cart = env.unwrapped
    doc = {
        "gymnasium": gym.__version__,
        "numpy": np.__version__,
        "libc": " ".join(platform.libc_ver()),
        "max_episode_steps": env.spec.max_episode_steps,
        "reward_threshold": env.spec.reward_threshold,
        "thresholds": hex64([cart.x_threshold, cart.theta_threshold_radians]),
        "masses": hex64([cart.total_mass, cart.polemass_length]),
        "low": hex32(env.observation_space.low),
        "high": hex32(env.observation_space.high),
        "baselines": {name: baseline_lengths(rule, 100) for name, rule in BASELINES.items()},
        "runs": runs,
    }
    data = json.dumps(doc, separators=(",", ":")).encode()
    with open(args.o, "wb") as f:
        f.write(gzip.compress(data, mtime=0))
    steps = [len(e["actions"]) for r in runs for e in r["episodes"]]
    print(f"{len(steps)} episodes, {sum(steps)} steps")


if __name__ == "__main__":
    main()
