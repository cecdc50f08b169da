"""Prints the scalars, or the histograms, of a log folder as TensorBoard's own reader sees them.

Usage: check_tensorboard.py FOLDER [--histograms]

Prints one JSON document: an object from each tag, in sorted order, to its points
[wall_time, step, value], or of histograms to [step, [min, max, num, sum, sum_squares], the
limits of the buckets, their counts]. Points that a resumed run has made void are left out, as
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


def histograms(folder: str) -> dict[str, list]:
    """Reads all histograms of an event folder."""
    reader = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.HISTOGRAMS: 0})
    reader.Reload()
    points = {}
    for tag in sorted(reader.Tags()["histograms"]):
        points[tag] = []
        for p in reader.Histograms(tag):
            h = p.histogram_value
            numbers = [h.min, h.max, h.num, h.sum, h.sum_squares]
            points[tag].append([p.step, numbers, list(h.bucket_limit), list(h.bucket)])
    return points


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--histograms"]):
        sys.exit(__doc__)
    json.dump((histograms if sys.argv[2:] else read)(sys.argv[1]), sys.stdout, indent=1)
    print()
