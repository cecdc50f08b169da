"""PPO on CartPole with environment and learner compiled into one program, as PureJaxRL does it.

    python tools/jax_ppo.py --n-envs 4 --n-steps 128 --batch-size 128 --epochs 4 --steps 500000

This is a peer for tools/bench_peers.py, written for it after the published description of PureJaxRL (Lu and others,
"Discovered Policy Optimisation", 2022): two towers of 64 and 64 with tanh, orthogonal weights, Adam with eps 1e-5 and
a rate that falls to 0, GAE, normalized advantages, clipped values. It prints one line of JSON: steps, seconds of
compilation, seconds of wall and processor time after it, and the mean return of the last 100 episodes, which shows
that it learns.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

GAMMA, LAMBDA, CLIP, ENTROPY, VALUE, RATE = 0.99, 0.95, 0.2, 0.01, 0.5, 2.5e-4
KEPT = 100  # episodes whose returns are averaged


class World(NamedTuple):
    """CartPole, n of them."""

    state: jax.Array  # n × 4: position, speed, angle, its speed
    steps: jax.Array  # n: of the episode so far


def fresh(key: jax.Array, n: int) -> jax.Array:
    """Returns the first states of n episodes."""
    return jax.random.uniform(key, (n, 4), minval=-0.05, maxval=0.05)


def step(world: World, action: jax.Array, key: jax.Array) -> tuple[World, jax.Array]:
    """Steps each CartPole as Gymnasium's CartPole-v1 does; those whose episodes end start again."""
    x, dx, angle, dangle = world.state.T
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    pushed = (jnp.where(action == 1, 10.0, -10.0) + 0.05 * dangle**2 * sin) / 1.1
    turn = (9.8 * sin - cos * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    push = pushed - 0.05 * turn * cos / 1.1
    after = jnp.stack([x + 0.02 * dx, dx + 0.02 * push, angle + 0.02 * dangle, dangle + 0.02 * turn], axis=1)
    steps = world.steps + 1
    done = (jnp.abs(after[:, 0]) > 2.4) | (jnp.abs(after[:, 2]) > 12 * jnp.pi / 180) | (steps >= 500)
    state = jnp.where(done[:, None], fresh(key, len(steps)), after)
    return World(state, jnp.where(done, 0, steps)), done


def tower(key: jax.Array, out: int, scale: float) -> list[tuple[jax.Array, jax.Array]]:
    """Returns the weights and biases of a tower with out outputs."""
    sizes, scales = [4, 64, 64, out], [2**0.5, 2**0.5, scale]
    keys = jax.random.split(key, 3)
    return [
        (jax.nn.initializers.orthogonal(s)(k, (i, o)), jnp.zeros(o))
        for k, i, o, s in zip(keys, sizes[:-1], sizes[1:], scales, strict=True)
    ]


def forward(params: Any, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the logarithms of the actions' probabilities, and the values."""

    def run(layers: Any) -> jax.Array:
        hidden = obs
        for weights, bias in layers[:-1]:
            hidden = jnp.tanh(hidden @ weights + bias)
        return hidden @ layers[-1][0] + layers[-1][1]

    return jax.nn.log_softmax(run(params["policy"])), run(params["value"])[..., 0]


class Rollout(NamedTuple):
    """What a rollout keeps of its steps."""

    obs: jax.Array
    action: jax.Array
    logp: jax.Array
    value: jax.Array
    done: jax.Array


def loss(params: Any, rows: Rollout, advantage: jax.Array, target: jax.Array) -> jax.Array:
    """Returns PPO's loss on a minibatch."""
    logp, value = forward(params, rows.obs)
    ratio = jnp.exp(jnp.take_along_axis(logp, rows.action[:, None], 1)[:, 0] - rows.logp)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    surrogate = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage).mean()
    clipped = rows.value + jnp.clip(value - rows.value, -CLIP, CLIP)
    value_loss = 0.5 * jnp.maximum((value - target) ** 2, (clipped - target) ** 2).mean()
    entropy = -(jnp.exp(logp) * logp).sum(1).mean()
    return VALUE * value_loss - surrogate - ENTROPY * entropy


def make_train(n_envs: int, n_steps: int, batch_size: int, epochs: int, updates: int) -> Any:
    """Returns the training as a function of a key, which returns the mean return of the last episodes."""
    rows = n_envs * n_steps
    batches = rows // batch_size
    rate = optax.linear_schedule(RATE, 0.0, updates * epochs * batches)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(rate, eps=1e-5))

    def act(carry: Any, key: jax.Array) -> tuple[Any, Any]:
        params, world, returns, number = carry
        choice, reset = jax.random.split(key)
        logp, value = forward(params, world.state)
        action = jax.random.categorical(choice, logp)
        after, done = step(world, action, reset)
        # A ring of the last returns, which equal lengths; rows whose episode continues write behind its end.
        place = jnp.where(done, (number + jnp.cumsum(done) - 1) % KEPT, KEPT)
        returns = returns.at[place].set(world.steps + 1.0)
        taken = jnp.take_along_axis(logp, action[:, None], 1)[:, 0]
        return (params, after, returns, number + done.sum()), Rollout(world.state, action, taken, value, done)

    def advantages(rollout: Rollout, last: jax.Array) -> jax.Array:
        def back(carry: Any, row: Any) -> tuple[Any, jax.Array]:
            gae, following = carry
            value, done = row
            delta = 1.0 + GAMMA * following * (1 - done) - value
            gae = delta + GAMMA * LAMBDA * (1 - done) * gae
            return (gae, value), gae

        return jax.lax.scan(back, (jnp.zeros_like(last), last), (rollout.value, rollout.done), reverse=True)[1]

    def update(carry: Any, key: jax.Array) -> tuple[Any, None]:
        params, state, world, returns, number = carry
        play, learn = jax.random.split(key)
        (_, world, returns, number), rollout = jax.lax.scan(
            act, (params, world, returns, number), jax.random.split(play, n_steps)
        )
        gae = advantages(rollout, forward(params, world.state)[1])
        flat = jax.tree.map(lambda a: a.reshape(rows, *a.shape[2:]), (rollout, gae, gae + rollout.value))

        def minibatch(carry: Any, batch: Any) -> tuple[Any, None]:
            params, state = carry
            changes, state = optimizer.update(jax.grad(loss)(params, *batch), state, params)
            return (optax.apply_updates(params, changes), state), None

        def epoch(carry: Any, key: jax.Array) -> tuple[Any, None]:
            order = jax.random.permutation(key, rows)
            shuffled = jax.tree.map(lambda a: a[order].reshape(batches, batch_size, *a.shape[1:]), flat)
            return jax.lax.scan(minibatch, carry, shuffled)

        (params, state), _ = jax.lax.scan(epoch, (params, state), jax.random.split(learn, epochs))
        return (params, state, world, returns, number), None

    def train(key: jax.Array) -> jax.Array:
        policy, value, begin, run = jax.random.split(key, 4)
        params = {"policy": tower(policy, 2, 0.01), "value": tower(value, 1, 1.0)}
        world = World(fresh(begin, n_envs), jnp.zeros(n_envs, jnp.int32))
        carry = (params, optimizer.init(params), world, jnp.zeros(KEPT + 1), jnp.int32(0))
        (_, _, _, returns, number), _ = jax.lax.scan(update, carry, jax.random.split(run, updates))
        return returns[:KEPT].sum() / jnp.clip(number, 1, KEPT)

    return jax.jit(train)


def main() -> None:
    """Trains once and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n-envs", type=int, required=True)
    parser.add_argument("--n-steps", type=int, required=True, help="of each environment in a rollout")
    parser.add_argument("--batch-size", type=int, required=True, help="rows of a minibatch")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="of all environments")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rollout = args.n_envs * args.n_steps
    updates = -(-args.steps // rollout)
    key = jax.random.key(args.seed)
    begun = time.perf_counter()
    train = make_train(args.n_envs, args.n_steps, args.batch_size, args.epochs, updates).lower(key).compile()
    compiled, used = time.perf_counter(), time.process_time()
    final = float(train(key))
    report = {
        "steps": updates * rollout, "compile_s": compiled - begun, "wall_s": time.perf_counter() - compiled,
        "cpu_s": time.process_time() - used, "return": final, "version": jax.__version__,
    }  # fmt: skip
    print(json.dumps(report))


if __name__ == "__main__":
    main()
