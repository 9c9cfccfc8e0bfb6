"""What rules cost that people can read: trees of depth 1 to 3 beside the best action for each unit, on real tables; and seconds.

As in `real.py`, cobed learns from some rows with actions at random and decides for the others: freely, and by the best tree on the
expected outcomes at those others. Policies are judged by what those rows show, with paired errors. Then a tree for many made-up
rows, in seconds. Results are kept in --results after each replay: the same command goes on.
Run: python benchmarks/rules.py [--data FOLDER] [--sets warfarin rfm] [--rows 300] [--replays 20] [--many 1000000]
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from real import FOLDER, SETS, Kept, Replay, cobed_values

import cobed
from cobed.campaign.readable import WORTH_ASKING, columns_of

DEPTHS = (1, 2, 3)


def run(replay: Replay) -> dict[str, float]:
    """What the free policy and the trees earn."""
    values = cobed_values(replay)
    columns = columns_of(replay.spec, replay.target_cells)
    earned = {
        "free": replay.value(values.argmax(axis=1)),
        "single": replay.value(np.full(len(values), values.mean(axis=0).argmax())),
    }
    for depth in DEPTHS:
        tree = cobed.grow_tree(columns, values, replay.rows.options, depth, worth=WORTH_ASKING)
        earned[f"depth {depth}"] = replay.value(tree.choose(columns))
    return earned


def many(num_rows: int) -> None:
    rng = np.random.default_rng(0)
    columns = {f"number {i}": rng.normal(size=num_rows) for i in range(6)}
    columns |= {f"name {i}": rng.choice(np.array(["a", "b", "c", "d"], object), num_rows) for i in range(2)}
    values = rng.normal(size=(num_rows, 4)).astype(np.float32)
    values[:, 1] += columns["number 0"] > 0.5
    for depth in DEPTHS:
        begun = time.perf_counter()
        cobed.grow_tree(columns, values, ["w", "x", "y", "z"], depth)
        print(f"{num_rows:,} rows, 8 columns, 4 actions, depth {depth}: {time.perf_counter() - begun:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--sets", nargs="*", default=["warfarin", "rfm", "hillstrom-visit"], choices=list(SETS))
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--results", type=Path, default=Path("rules.jsonl"))
    options = parser.parse_args()
    if options.sets and not options.data.is_dir():
        sys.exit(f"There are no tables in {options.data}: give their folder with --data.")
    warnings.filterwarnings("ignore")
    kept = Kept(options.results, "set", "rows", "seed")
    for name in options.sets:
        rows = SETS[name](options.data)
        for seed in range(options.replays):
            if (name, options.rows, seed) not in kept.values:
                kept.add((name, options.rows, seed), run(Replay(rows, options.rows, seed)))
        values = kept.frame(options.replays, name, options.rows)
        print(f"\n{name}, {options.rows} rows, {len(values)} replays: free {values['free'].mean():.4f}")
        for method in values.columns.drop("free"):
            lost = values[method] - values["free"]
            print(
                f"  {method:8} {values[method].mean():9.4f}   {lost.mean():+.4f} ± {lost.std() / len(values) ** 0.5:.4f}"
            )
    if options.many:
        many(options.many)


if __name__ == "__main__":
    main()
