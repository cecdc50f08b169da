"""Prints the scalars of a log folder as TensorBoard's own reader sees them.

Usage: check_tensorboard.py FOLDER

Prints one JSON document: an object from each tag, in sorted order, to its points
[wall_time, step, value]. Points that a resumed run has made void are left out, as
TensorBoard leaves them out. Needs the pip package `tensorboard`.
"""

import json
import sys

from tensorboard.backend.event_processing import event_accumulator


def read(folder: str) -> dict[str, list[list[float]]]:
    """Reads all scalars of an event folder.

    Args:
        folder: The folder that holds the event files.

    Returns:
        From each tag to its points [wall_time, step, value], in the order of reading.
    """
    reader = event_accumulator.EventAccumulator(
        folder, size_guidance={event_accumulator.SCALARS: 0}  # 0: keep all points
    )
    reader.Reload()
    return {
        tag: [[p.wall_time, p.step, p.value] for p in reader.Scalars(tag)]
        for tag in sorted(reader.Tags()["scalars"])
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    json.dump(read(sys.argv[1]), sys.stdout, indent=1)
    print()
