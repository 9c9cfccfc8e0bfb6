"""Designs on real tables: CO-BED against random, balanced and Thompson's assignment, each learned from by cobed's default policy.

warfarin and rfm know the outcome of every action, so that any assignment can be replayed and its policy judged. Settings:
alike: nothing is known of any action. known: some actions are in use, with 500 rows of history (two of five doses; of rfm's two
actions one). apart: units of one kind, targets of another (race; channel). rounds: three rounds of a third of the units each,
beside the same in one. `plan` says before what designing should earn over random assignment; its promise for the first replay
stands beside what happened. Results are kept in --results after each replay: the same command goes on.
Run: python benchmarks/real_designs.py [--data FOLDER] [--sets warfarin] [--settings known] [--units 300] [--replays 25]
"""

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import jax.random as jr
import numpy as np
import pandas as pd
from real import FOLDER, MOST_TARGETS, Kept, Rows, rfm, warfarin

from cobed.allowed import Allowed
from cobed.campaign.encoding import encode, encode_contexts, fit_encoding
from cobed.campaign.engine import POLICY_DRAWS, Batch, design_batch, learn_from, policy_optimum, posterior_of
from cobed.campaign.plan import Known, PlanSettings, make_plan
from cobed.campaign.spec import parse_spec
from cobed.campaign.tables import read_table
from cobed.campaign.targets import read_targets
from cobed.campaign.template import guess
from cobed.data import Data
from cobed.decide import decide

NUM_HISTORY = 500
# Targets that a design looks at, as in a campaign.
DESIGN_TARGETS = 500
METHODS = ("CO-BED", "Random", "Balanced", "Thompson")
SETTINGS = ("alike", "known", "apart", "rounds")
ROUNDS = 3
PLAN_WORLDS = 200


def five_doses(folder: Path) -> Rows:
    """warfarin with five doses per week to choose from, so that two can be known and three new."""
    rows = warfarin(folder)
    frame = pd.read_csv(folder / "warfarin.csv.gz", dtype=str, keep_default_na=False)
    dose = pd.to_numeric(frame["Therapeutic Dose of Warfarin"], errors="coerce").dropna().to_numpy()
    options = ["below 21", "21 to 28", "28 to 35", "35 to 49", "above 49"]
    right = np.digitize(dose, [21, 28, 35, 49.001])
    return rows._replace(options=options, all_outcomes=np.eye(5)[right])


class Case(NamedTuple):
    """A table, the actions in use, which rows may be units and which targets."""

    rows: Rows
    in_use: list[int]
    units: np.ndarray
    targets: np.ndarray


def case(name: str, setting: str, folder: Path) -> Case:
    rows = {"warfarin": five_doses if setting == "known" else warfarin, "rfm": rfm}[name](folder)
    everyone = np.ones(len(rows.contexts), bool)
    if setting == "apart":
        column, kind = {"warfarin": ("Race", "White"), "rfm": ("channel", None)}[name]
        values = rows.contexts[column]
        inside = (values == (kind or values.mode()[0])).to_numpy()
        return Case(rows, [], inside, ~inside)
    in_use = {"warfarin": [1, 2], "rfm": [0]}[name] if setting == "known" else []
    return Case(rows, in_use, everyone, everyone)


class Replay:
    """The tables of one replay, encoded as `cobed init` proposes: history, units and targets drawn at random."""

    def __init__(self, case: Case, num_units: int, seed: int):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(case.rows.contexts))
        history, free = (order[:NUM_HISTORY], order[NUM_HISTORY:]) if case.in_use else (order[:0], order)
        self.units = free[case.units[free]][:num_units]
        taken = np.isin(free, self.units)
        self.targets = free[case.targets[free] & ~taken][:MOST_TARGETS]
        self.rows, self.seed = case.rows, seed
        self.past_actions = rng.choice(case.in_use, len(history)) if case.in_use else np.zeros(0, int)
        self._encode(history, rng)

    def table(self, positions: np.ndarray, **columns) -> pd.DataFrame:
        frame = self.rows.contexts.iloc[positions].reset_index(drop=True)
        return frame.assign(row_id=[f"R{position}" for position in positions], **columns)

    def _encode(self, history: np.ndarray, rng: np.random.Generator) -> None:
        # Of the outcomes of chance assignments the proposal takes the law alone.
        chance = rng.integers(0, len(self.rows.options), len(self.units))
        chance[: len(self.rows.options)] = np.arange(len(self.rows.options))
        seen = self.table(
            self.units, action=[self.rows.options[k] for k in chance], outcome=self.outcomes(self.units, chance)
        )
        self.unit_table = read_table(self.table(self.units), "units")
        self.target_table = read_table(self.table(self.targets), "targets")
        past = read_table(self.table(history), "history") if len(history) else None
        self.spec = parse_spec(guess("replay", read_table(seen, "rows"), "action", "outcome"), "the proposed spec")
        names = list(self.spec.action.options or ())
        self.order = np.array([names.index(option) for option in self.rows.options])
        tables = [self.unit_table] if past is None else [past, self.unit_table]
        targets = read_targets(self.spec, fit_encoding(self.spec, tables), self.target_table)
        self.encoding = targets.encoding
        self.contexts = encode_contexts(self.spec, self.encoding, self.unit_table)[0]
        self.target_contexts = encode(self.spec, self.encoding, targets.cells)
        self.past = None
        if past is not None:
            contexts = encode_contexts(self.spec, self.encoding, past)[0]
            self.past = self.data(contexts, self.past_actions, self.outcomes(history, self.past_actions))

    def outcomes(self, positions: np.ndarray, actions: np.ndarray) -> np.ndarray:
        assert self.rows.all_outcomes is not None
        return self.rows.all_outcomes[positions, actions]

    def data(self, contexts: np.ndarray, actions: np.ndarray, outcomes: np.ndarray) -> Data:
        one_hot = np.eye(len(self.rows.options), dtype=np.float32)[self.order[actions]]
        return Data(contexts, one_hot, outcomes.astype(np.float32))

    def run(self, method: str, num_rounds: int) -> float:
        """What the policy earns after an experiment of so many rounds, on average over the targets."""
        data = self.past
        for number, members in enumerate(np.array_split(np.arange(len(self.units)), num_rounds)):
            actions = self.assign(method, members, data, number)
            new = self.data(self.contexts[members], actions, self.outcomes(self.units[members], actions))
            data = new if data is None else _joined(data, new)
        model, posterior = learn_from(self.spec, self.encoding, None, data)
        draws = posterior.equal_draws(POLICY_DRAWS, jr.key(0))
        choices = decide(model, policy_optimum(self.spec.action.space), draws, self.target_contexts)
        assert choices.values is not None
        return float(self.outcomes(self.targets, np.argmax(choices.values[:, self.order], axis=1)).mean())

    def assign(self, method: str, members: np.ndarray, data: Data | None, number: int) -> np.ndarray:
        """Actions of these units as positions among the table's own, (D,)."""
        rng = np.random.default_rng([self.seed, number])
        num_options = len(self.rows.options)
        if method == "Random":
            return rng.integers(0, num_options, len(members))
        if method == "Balanced":
            return _balanced(rng, self.contexts[members], num_options)
        designer = {} if method == "CO-BED" else {"designer": method}
        spec = self.spec.model_copy(update={"design": self.spec.design.model_copy(update=designer)})
        model, posterior = learn_from(spec, self.encoding, None, data)
        targets = self.target_contexts[:DESIGN_TARGETS]
        result = design_batch(spec, model, posterior, Batch(self.contexts[members], targets, Allowed()), self.seed)
        return np.argsort(self.order)[np.argmax(np.asarray(result.actions), axis=1)]

    def promise(self) -> tuple[float, float]:
        """What `plan` says of random assignment: how much more the policy would lose by it, and the error."""
        model, posterior = learn_from(self.spec, self.encoding, None, self.past)
        model = (model if self.past is None else model.given(posterior)).matched()
        known = Known(self.spec, self.encoding, model, posterior_of(model, None, self.spec.seed), None)
        settings = PlanSettings(sizes=[len(self.units)], num_worlds=PLAN_WORLDS)
        size = make_plan(known, self.unit_table, self.target_table, settings).sizes[0]
        return -size.difference[0], size.difference[1]


def _joined(first: Data, second: Data) -> Data:
    pairs = ((first.contexts, second.contexts), (first.actions, second.actions), (first.outcomes, second.outcomes))
    return Data(*(np.concatenate([np.asarray(part) for part in pair]) for pair in pairs))


def _balanced(rng: np.random.Generator, contexts: np.ndarray, num_options: int) -> np.ndarray:
    """Every action once among units that are alike: blocks along the main direction of their contexts, in random order."""
    centred = contexts - contexts.mean(axis=0)
    order = np.argsort(centred @ np.linalg.svd(centred, full_matrices=False)[2][0])
    actions = np.concatenate([rng.permutation(num_options) for _ in range(-(-len(order) // num_options))])
    return actions[: len(order)][np.argsort(order)]


def run(case: Case, setting: str, num_units: int, seed: int) -> dict[str, float]:
    replay = Replay(case, num_units, seed)
    values = {method: replay.run(method, 1) for method in METHODS}
    if setting == "rounds":
        values |= {f"{method}, {ROUNDS} rounds": replay.run(method, ROUNDS) for method in ("CO-BED", "Thompson")}
    if seed == 0:
        values["promise"], values["promise_error"] = replay.promise()
    return values


def tell(name: str, setting: str, frame: pd.DataFrame) -> None:
    """Means, and what CO-BED earns more than each, with paired errors; the promise of `plan` beside that of random assignment."""
    print(f"\n{name}, {setting}, {len(frame)} replays")
    for method in [column for column in frame.columns if not column.startswith("promise")]:
        ahead = frame["CO-BED"] - frame[method]
        text = "" if method == "CO-BED" else f"   CO-BED {ahead.mean():+.4g} ± {ahead.std() / len(frame) ** 0.5:.2g}"
        print(f"  {method:20} {frame[method].mean():9.4f}{text}")
    promise, error = frame["promise"].dropna().iloc[0], frame["promise_error"].dropna().iloc[0]
    print(f"  plan promised over random assignment: {promise:+.4g} ± {error:.2g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--sets", nargs="+", default=["warfarin", "rfm"], choices=["warfarin", "rfm"])
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--units", type=int, default=300)
    parser.add_argument("--replays", type=int, default=25)
    parser.add_argument("--results", type=Path, default=Path("real-designs.jsonl"))
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"There are no tables in {options.data}: give their folder with --data.")
    warnings.filterwarnings("ignore")
    kept = Kept(options.results, "set", "setting", "units", "seed")
    for name in options.sets:
        for setting in options.settings:
            table = case(name, setting, options.data)
            for seed in range(options.replays):
                key = name, setting, options.units, seed
                if key in kept.values:
                    continue
                begun = time.perf_counter()
                kept.add(key, run(table, setting, options.units, seed))
                print(f"{name} {setting} replay {seed}: {time.perf_counter() - begun:.1f} s", file=sys.stderr)
            tell(name, setting, kept.frame(options.replays, name, setting, options.units))


if __name__ == "__main__":
    main()
