"""How fast servers step, and how many environments each of them gets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from kubernasium.errors import BusyError, ConnectionLostError, KubernasiumError, UnavailableError
from kubernasium.protocol.vector import Vector

MEASURE = 0.2  # seconds for which the servers step at random
SAME = 1.25  # ratio of the fastest to the slowest up to which all get equally many


def measured(makers: Sequence[Callable[[], Vector]]) -> list[float]:
    """Returns the relative speeds of servers, which step at the same time.

    Args:
        makers: return a vector of each server, whose connection this closes.

    Returns:
        0 for a server that does not answer. The others are equal if they differ little, or if none can be measured; one
        of several that cannot be measured gets 0, too.

    Raises:
        KubernasiumError: no server answers, or one refuses what others would refuse, too.
    """
    probes = [_Probe(make) for make in makers]
    for work in (_Probe.open, _Probe.run):
        threads = [threading.Thread(target=work, args=(probe,), name="kubernasium-measure") for probe in probes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    errors = [probe.error for probe in probes if probe.error is not None]
    for error in errors:
        if not isinstance(error, KubernasiumError) or not isinstance(
            error, (ConnectionLostError, BusyError, UnavailableError)
        ):
            raise error
    there = [float(probe.vector is not None) for probe in probes]
    if not any(there):
        raise errors[0]
    speeds = [probe.speed for probe in probes]
    known = [speed for speed in speeds if speed > 0]
    return there if not known or max(known) <= SAME * min(known) else speeds


class _Probe:
    """A vector that is made to measure a server."""

    def __init__(self, make: Callable[[], Vector]) -> None:
        self._make = make
        self.vector: Vector | None = None
        self.speed = 0.0  # environments stepped in a second
        self.error: BaseException | None = None

    def open(self) -> None:
        """Makes the vector."""
        try:
            self.vector = self._make()
        except BaseException as err:  # of this thread, raised by the one that waits for it
            self.error = err

    def run(self) -> None:
        """Steps for a while."""
        vector = self.vector
        if vector is None:
            return
        try:
            vector.reset(seed=0)
            begin, steps = time.monotonic(), 0
            while steps == 0 or time.monotonic() - begin < MEASURE:
                vector.step(policy="random")
                steps += 1
            self.speed = steps * vector.num_envs / (time.monotonic() - begin)
        except KubernasiumError as err:
            if isinstance(err, ConnectionLostError):
                self.vector = None
                self.error = err
        finally:
            vector.connection.close()


def apportioned(n: int, weights: Sequence[float]) -> list[int]:
    """Divides n by weights, of which one is positive, by the method of largest remainders."""
    exact = [n * (weight / sum(weights)) for weight in weights]
    sizes = [int(share) for share in exact]
    order = sorted(range(len(exact)), key=lambda k: sizes[k] - exact[k])
    for k in order[: n - sum(sizes)]:
        sizes[k] += 1
    return sizes
