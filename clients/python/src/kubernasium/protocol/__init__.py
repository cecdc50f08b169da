"""The wire protocol `kubernasium.v1`, with NumPy and msgpack alone.

from kubernasium import protocol

with protocol.connect("ws://127.0.0.1:8080") as connection:
    vector = protocol.Vector(connection, "classic/CartPole-v1", 64)
    batch = vector.reset(seed=7)
    batch = vector.step(numpy.zeros(64, numpy.int64))
    batch["obs"], batch["r"]
"""

from kubernasium.protocol.codec import decode, encode
from kubernasium.protocol.connection import Connection
from kubernasium.protocol.dial import connect
from kubernasium.protocol.vector import Vector

__all__ = ["Connection", "Vector", "connect", "decode", "encode"]
