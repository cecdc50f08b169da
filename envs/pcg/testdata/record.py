"""Records NumPy's PCG64 streams: run `python record.py` in this folder to rewrite pcg64.json.

Every double is written as float.hex(), every 64-bit integer as a decimal string.
"""

import json

import numpy as np

SEEDS = [0, 1, 2, 123, 2**31 - 1, 2**32 - 1, 2**32, 2**32 + 1, 2**53 + 1, 2**63, 2**64 - 1]


def generator(seed: int) -> np.random.Generator:
    """Returns the generator that Gymnasium's seeding.np_random(seed) makes."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


def record(seed: int) -> dict:
    """Returns what NumPy draws after seeding with seed, each list from a fresh generator."""
    bitgen = np.random.PCG64(np.random.SeedSequence(seed))
    state = bitgen.state["state"]
    raw = [str(int(x)) for x in bitgen.random_raw(8)]
    bitgen.random_raw(992)
    return {
        "seed": str(seed),
        "words": [str(int(x)) for x in np.random.SeedSequence(seed).generate_state(4, np.uint64)],
        "state": f"{state['state']:032x}",
        "inc": f"{state['inc']:032x}",
        "raw": raw,
        "raw1000": str(int(bitgen.random_raw())),  # the output after 1,000 others
        "random": [x.hex() for x in generator(seed).random(8).tolist()],
        "uniform": [x.hex() for x in generator(seed).uniform(-0.05, 0.05, size=8).tolist()],
        "uniform_wide": [x.hex() for x in generator(seed).uniform(-3.7, 1e9, size=8).tolist()],
    }


if __name__ == "__main__":
    doc = {"numpy": np.__version__, "streams": [record(s) for s in SEEDS]}
    with open("pcg64.json", "w", encoding="utf-8") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")
