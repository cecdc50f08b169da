"""Compares `trainer reproduce lra` with SciPy's HiGHS on published batches.

    python highs_check.py --trainer bin/trainer --data ../shared/data/metis [--rows 3]

The linear bounds must agree within 1e-6 and the integer optima within 1e-4, relatively.
Needs numpy and scipy.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
from scipy.optimize import LinearConstraint, linprog, milp


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--trainer", required=True, help="the built command, such as bin/trainer")
    p.add_argument("--data", type=pathlib.Path, required=True, help="folder with node tables and batches")
    p.add_argument("--rows", type=int, default=2, help="batches of each size")
    args = p.parse_args()
    bad = 0
    for table in ("node_table_true_6435.csv", "node_table_rf_p20.csv"):
        rows = np.genfromtxt(args.data / table, delimiter=",", skip_header=1)
        value = rows[:, -1]
        columns = np.vstack([rows[:, :7].T, np.ones(len(rows))])
        for nodes, size in ((81, 200), (81, 300), (81, 400), (729, 2000)):
            batches = np.genfromtxt(args.data / f"batch_set_{size}.csv", delimiter=",", skip_header=1)
            for row in range(args.rows):
                right = np.append(batches[row], nodes)
                lp = linprog(-value, A_eq=columns, b_eq=right, method="highs")
                ip = milp(-value, constraints=LinearConstraint(columns, right, right), integrality=np.ones(len(value)),
                          options={"mip_rel_gap": 2e-5, "time_limit": 60})
                ours = json.loads(subprocess.check_output([
                    args.trainer, "reproduce", "lra", "--node-table", str(args.data / table),
                    "--batches", str(args.data / f"batch_set_{size}.csv"), "--row", str(row), "--nodes", str(nodes), "--json"]))
                bound = abs(ours["lp_bound"] + lp.fun / size)
                # Where HiGHS runs out of time, its incumbent and its own bound enclose the optimum.
                low, high = -ip.fun / size, -ip.mip_dual_bound / size
                ok = bound <= 1e-6 and low * (1 - 1e-4) <= ours["milp"] <= high * (1 + 1e-9) + 1e-9
                bad += not ok
                print(f"{'ok ' if ok else 'BAD'} {table} {nodes} nodes, batch {row} of {size}: bound off by {bound:.1e}, "
                      f"optimum {ours['milp']:.6f}, HiGHS {low:.6f} to {high:.6f}", flush=True)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
