"""Policies from the same real rows: cobed's default against what people use otherwise. Every figure with its paired error.

In each replay some rows of a real table, with actions assigned at random, are given to all methods; each decides for the rows
that are left. cobed is used as an analyst does: `cobed init` on those rows proposes the spec, and nothing in it is changed. The
others get the same rows encoded in the same way: a ridge regression with all products of context and action (its penalty by
cross-validation), a logistic one for binary outcomes, random forests and boosted trees with the action as a column (S) and one
for each action (T), the action that looked best for all, and a doubly robust policy forest where EconML is installed.

warfarin and rfm know the outcome of every action, so that policies are judged by it; of the others each row shows the action it
got, and policies are judged by inverse propensity, which is noisier. warfarin-dose chooses a number: the dose per week, right
within a fifth of the therapeutic one; regressions there have the dose, its square and its products with contexts. Results are
kept in --results after each replay: the same command goes on, and computes only methods that are missing there.
Run: python benchmarks/real.py [--data FOLDER] [--sets warfarin rfm] [--rows 150 300 600] [--replays 100] [--results real.jsonl]
"""

import argparse
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

FOLDER = Path(__file__).parents[2] / "shared" / "data"
MOST_TARGETS = 4_000
# What a coupon costs of the revenue it brings, in Artea's campaign.
COUPON = 0.2


class Rows(NamedTuple):
    """A table: contexts, names of the actions, and either the outcome of every action (N, K), or action and outcome of each row."""

    contexts: pd.DataFrame
    options: list[str]
    all_outcomes: np.ndarray | None = None
    actions: np.ndarray | None = None
    outcomes: np.ndarray | None = None
    shares: tuple[float, ...] = ()  # of an outcome, what each action costs
    amounts: np.ndarray | None = None  # the numbers that actions are, where they are numbers

    @property
    def kept(self) -> np.ndarray:
        """What is left of an outcome by action."""
        return 1 - np.array(self.shares or [0.0] * len(self.options))


def warfarin(folder: Path) -> Rows:
    """Three doses per week, of which one is right; raw cells, missing ones too, without what is known only afterwards."""
    frame = pd.read_csv(folder / "warfarin.csv.gz", dtype=str, keep_default_na=False)
    dose = pd.to_numeric(frame["Therapeutic Dose of Warfarin"], errors="coerce")
    frame, dose = frame[dose.notna()].reset_index(drop=True), dose.dropna().to_numpy()
    columns = [
        "Gender", "Race", "Ethnicity", "Age", "Height (cm)", "Weight (kg)", "Diabetes",
        "Congestive Heart Failure and/or Cardiomyopathy", "Valve Replacement", "Aspirin", "Simvastatin (Zocor)",
        "Atorvastatin (Lipitor)", "Amiodarone (Cordarone)", "Carbamazepine (Tegretol)", "Phenytoin (Dilantin)",
        "Rifampin or Rifampicin", "Current Smoker", "CYP2C9 consensus", "VKORC1 -1639 consensus",
    ]  # fmt: skip
    right = np.where(dose < 21, 0, np.where(dose <= 49, 1, 2))
    return Rows(frame[columns], ["low", "medium", "high"], np.eye(3)[right])


def warfarin_dose(folder: Path) -> Rows:
    """A dose as a number of mg per week, right within a fifth of the therapeutic one, as clinicians count."""
    rows, doses = warfarin(folder), np.arange(7.0, 92.0)
    frame = pd.read_csv(folder / "warfarin.csv.gz", dtype=str, keep_default_na=False)
    needed = pd.to_numeric(frame["Therapeutic Dose of Warfarin"], errors="coerce").dropna().to_numpy()
    right = np.abs(doses - needed[:, None]) <= 0.2 * needed[:, None]
    return rows._replace(options=[f"{dose:g}" for dose in doses], all_outcomes=right.astype(float), amounts=doses)


def rfm(folder: Path) -> Rows:
    frame = pd.read_csv(folder / "rfm.csv.gz", dtype=str)
    both = frame[["Y0", "Y1"]].to_numpy(float)
    return Rows(frame[["channel", "recency", "frequency", "monetary"]], ["no", "yes"], both)


def hillstrom(folder: Path, outcome: str) -> Rows:
    frame = pd.read_csv(folder / "hillstrom.csv.gz", dtype=str)
    options = ["No E-Mail", "Mens E-Mail", "Womens E-Mail"]
    contexts = frame[["recency", "history", "mens", "womens", "zip_code", "newbie", "channel"]]
    return Rows(contexts, options, None, frame.segment.map(options.index).to_numpy(), frame[outcome].to_numpy(float))


def artea(folder: Path, outcome: str, shares: tuple[float, ...] = ()) -> Rows:
    frame = pd.read_csv(folder / "artea-a_b-experiment.csv.gz", dtype=str)
    columns = [
        "channel_acq",
        "num_past_purch",
        "spent_last_purchase",
        "weeks_since_visit",
        "browsing_minutes",
        "shopping_cart",
    ]
    actions = frame.test_coupon.astype(int).to_numpy()
    return Rows(frame[columns], ["none", "coupon"], None, actions, frame[outcome].to_numpy(float), shares)


SETS: dict[str, Callable[[Path], Rows]] = {
    "warfarin": warfarin,
    "warfarin-dose": warfarin_dose,
    "rfm": rfm,
    "hillstrom-visit": lambda folder: hillstrom(folder, "visit"),
    "hillstrom-spend": lambda folder: hillstrom(folder, "spend"),
    "artea-transactions": lambda folder: artea(folder, "trans_after"),
    "artea-net": lambda folder: artea(folder, "revenue_after", (0.0, COUPON)),
}


class Replay:
    """Some rows with their actions and outcomes, the others to decide for, and both encoded as cobed proposes."""

    def __init__(self, rows: Rows, num_rows: int, seed: int):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(rows.contexts))
        self.rows, self.seen, self.others = rows, order[:num_rows], order[num_rows:][:MOST_TARGETS]
        if rows.all_outcomes is None:
            # Every row that is left judges a policy, because most of them got something else.
            self.others = order[num_rows:]
            assert rows.actions is not None
            assert rows.outcomes is not None
            self.actions, self.outcomes = rows.actions[self.seen], rows.outcomes[self.seen]
        else:
            self.actions = rng.integers(0, len(rows.options), num_rows)
            self.outcomes = rows.all_outcomes[self.seen, self.actions]
        self._encode()

    def _encode(self) -> None:
        from cobed.campaign.encoding import encode, encode_contexts, fit_encoding
        from cobed.campaign.spec import parse_spec
        from cobed.campaign.tables import read_table
        from cobed.campaign.targets import read_targets
        from cobed.campaign.template import guess

        def with_id(places: np.ndarray) -> pd.DataFrame:
            frame = self.rows.contexts.iloc[places].reset_index(drop=True)
            return frame.assign(row_id=[f"R{place}" for place in places])

        seen = with_id(self.seen).assign(action=[self.rows.options[a] for a in self.actions], outcome=self.outcomes)
        self.codes = action_codes(self.rows)
        table, others = read_table(seen, "rows"), read_table(with_id(self.others), "others")
        self.spec = parse_spec(guess("replay", table, "action", "outcome"), "the proposed spec")
        # Actions in the order of the table's own.
        names = list(self.spec.action.options or self.rows.options)
        self.order = [names.index(option) for option in self.rows.options]
        # Each action as the engine sees it, (K, A).
        amounts = self.rows.amounts
        vectors = np.eye(len(names))[self.order] if amounts is None else amounts[:, None]
        self.vectors = vectors.astype(np.float32)
        targets = read_targets(self.spec, fit_encoding(self.spec, [table]), others)
        self.encoding = targets.encoding
        self.contexts = encode_contexts(self.spec, self.encoding, table)[0]
        self.target_cells = targets.cells
        self.targets = encode(self.spec, self.encoding, targets.cells)

    def value(self, choice: np.ndarray) -> float:
        """What the policy earns on the rows it decides for, (T,) places of actions."""
        if self.rows.all_outcomes is not None:
            return float((self.rows.all_outcomes[self.others] * self.rows.kept)[np.arange(len(choice)), choice].mean())
        assert self.rows.actions is not None
        assert self.rows.outcomes is not None
        got, outcomes = self.rows.actions[self.others], self.rows.outcomes[self.others] * self.rows.kept[choice]
        # Each action went to the same share of rows, at random; the mean of those who got it is less noisy than a weighted sum.
        total = 0.0
        for k in range(len(self.rows.options)):
            chosen = choice == k
            judged = chosen & (got == k)
            total += chosen.mean() * outcomes[judged].mean() if judged.any() else 0.0
        return float(total)


def action_codes(rows: Rows) -> np.ndarray:
    """How regressions see each action, (K, .): its own column, or the number and its square."""
    if rows.amounts is None:
        return np.eye(len(rows.options))
    number = (rows.amounts - rows.amounts.mean()) / rows.amounts.std()
    return np.stack([number, number**2], axis=1)


def cobed_values(replay: Replay) -> np.ndarray:
    """Expected rewards (T, K) by cobed's default; of numbers a 1 at the chosen one."""
    import jax.random as jr

    from cobed.campaign.engine import POLICY_DRAWS, learn_from, policy_optimum
    from cobed.data import Data
    from cobed.decide import decide

    space, amounts = replay.spec.action.space, replay.rows.amounts
    data = Data(replay.contexts, replay.vectors[replay.actions], replay.outcomes.astype(np.float32))
    model, posterior = learn_from(replay.spec, replay.encoding, None, data)
    draws = posterior.equal_draws(POLICY_DRAWS, jr.key(0))
    choices = decide(model, policy_optimum(space), draws, replay.targets)
    if amounts is not None:
        return np.eye(len(amounts))[np.abs(amounts - choices.actions).argmin(axis=1)]
    assert choices.values is not None
    return np.asarray(choices.values)[:, replay.order] * replay.rows.kept


def products(contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Features of a regression: contexts, the codes of actions, and all their products."""
    return np.concatenate([contexts, actions, *(contexts * column[:, None] for column in actions.T)], axis=1)


def by_action(replay: Replay, predict: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Predictions (T, K) of a function of the codes of one action for each target."""
    return np.stack([predict(np.tile(code, (len(replay.targets), 1))) for code in replay.codes], axis=1)


def shared(
    replay: Replay, learner: Any, join: Callable[[np.ndarray, np.ndarray], np.ndarray], classes: bool = False
) -> np.ndarray:
    """One regression with the action among its columns."""
    net = replay.outcomes * replay.rows.kept[replay.actions]
    learner.fit(join(replay.contexts, replay.codes[replay.actions]), net > 0 if classes else net)

    def predict(actions: np.ndarray) -> np.ndarray:
        features = join(replay.targets, actions)
        return learner.predict_proba(features)[:, 1] if classes else learner.predict(features)

    return by_action(replay, predict)


def apart(replay: Replay, make: Callable[[], Any]) -> np.ndarray:
    """One regression for each action."""
    net = replay.outcomes * replay.rows.kept[replay.actions]
    predictions = []
    for k in range(len(replay.rows.options)):
        mine = replay.actions == k
        if mine.sum() < 2:
            predictions.append(np.full(len(replay.targets), -np.inf))
        else:
            predictions.append(make().fit(replay.contexts[mine], net[mine]).predict(replay.targets))
    return np.stack(predictions, axis=1)


def forest() -> Any:
    return RandomForestRegressor(200, min_samples_leaf=5, random_state=0)


def boosted() -> Any:
    return HistGradientBoostingRegressor(max_iter=100, learning_rate=0.05, min_samples_leaf=10, random_state=0)


def stack(contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.concatenate([contexts, actions], axis=1)


def single(replay: Replay) -> np.ndarray:
    """The action of the best average outcome for all; of numbers, the middle of the best tenth of the range."""
    net = replay.outcomes * replay.rows.kept[replay.actions]
    num_options, tried = len(replay.rows.options), replay.actions
    if replay.rows.amounts is not None:
        middles = (np.arange(10) * 2 + 1) * num_options // 20
        tried = middles[replay.actions * 10 // num_options]
    means = [net[tried == k].mean() if (tried == k).any() else -np.inf for k in range(num_options)]
    return np.tile(means, (len(replay.targets), 1))


def policy_forest(replay: Replay) -> np.ndarray:
    from econml.policy import DRPolicyForest

    net = replay.outcomes * replay.rows.kept[replay.actions]
    learner = DRPolicyForest(n_estimators=200, min_samples_leaf=10, max_depth=5, random_state=0)
    learner.fit(net, replay.actions, X=replay.contexts)
    return np.eye(len(replay.rows.options))[learner.predict(replay.targets)]


def methods(rows: Rows) -> dict[str, Callable[[Replay], np.ndarray]]:
    """Expected rewards (T, K), or scores, of every action at every target, by what can be used with these rows."""
    outcomes = rows.all_outcomes if rows.all_outcomes is not None else rows.outcomes
    learners: dict[str, Callable[[Replay], np.ndarray]] = {
        "cobed": cobed_values,
        "ridge": lambda replay: shared(replay, RidgeCV(np.logspace(-2, 5, 22)), products),
        "forest S": lambda replay: shared(replay, forest(), stack),
        "boosted S": lambda replay: shared(replay, boosted(), stack),
        "single": single,
    }
    if rows.amounts is None:
        learners |= {
            "forest T": lambda replay: apart(replay, forest),
            "boosted T": lambda replay: apart(replay, boosted),
        }
    if np.isin(np.unique(outcomes), (0, 1)).all():
        logistic = LogisticRegressionCV(Cs=list(np.logspace(-4, 1, 8)), cv=5, max_iter=300, scoring="neg_log_loss")
        learners["logistic"] = lambda replay: shared(replay, logistic, products, classes=True)
    if rows.amounts is None and importlib.util.find_spec("econml") is not None:
        learners["policy forest"] = policy_forest
    return learners


class Kept:
    """Values of replays by what names them, in a file of JSON lines: a command that was stopped goes on from there."""

    def __init__(self, path: Path, *names: str):
        self.path, self.names = path, names
        self.values: dict[tuple[Any, ...], dict[str, float]] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            row = json.loads(line)
            self.values.setdefault(tuple(row[name] for name in names), {}).update(row["values"])

    def add(self, key: tuple[Any, ...], values: dict[str, float]) -> None:
        self.values.setdefault(key, {}).update(values)
        with self.path.open("a") as file:
            file.write(json.dumps(dict(zip(self.names, key, strict=True)) | {"values": values}) + "\n")

    def frame(self, replays: int, *key: Any) -> pd.DataFrame:
        """A row for each replay; its seed is the last part of a key."""
        return pd.DataFrame([self.values[*key, seed] for seed in range(replays)])


def run(rows: Rows, num_rows: int, seed: int, learners: dict[str, Callable[[Replay], np.ndarray]]) -> dict[str, float]:
    replay = Replay(rows, num_rows, seed)
    return {method: replay.value(np.argmax(learn(replay), axis=1)) for method, learn in learners.items()}


def tell(name: str, num_rows: int, values: pd.DataFrame) -> str:
    """A line for each method: its mean, and cobed's advantage with its paired error. Then whether cobed is behind the best."""
    print(f"\n{name}, {num_rows} rows, {len(values)} replays")
    rivals = {}
    for method in values.columns:
        advantage = values["cobed"] - values[method]
        error = advantage.std() / len(values) ** 0.5
        rivals[method] = (advantage.mean(), error)
        text = "" if method == "cobed" else f"   cobed {advantage.mean():+.4g} ± {error:.2g}"
        print(f"  {method:14} {values[method].mean():9.4f}{text}")
    rivals.pop("cobed")
    if not rivals:
        return "no other method was asked for"
    worst = min(rivals, key=lambda method: rivals[method][0])
    mean, error = rivals[worst]
    if all(mean > 2 * error for mean, error in rivals.values()):
        return "above all by two errors"
    return f"behind {worst} by more than one error" if mean < -error else "not below the best by more than one error"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--rows", type=int, nargs="+", default=[150, 300, 600])
    parser.add_argument("--replays", type=int, default=100)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--results", type=Path, default=Path("real.jsonl"))
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"There are no tables in {options.data}: give their folder with --data.")
    kept = Kept(options.results, "set", "rows", "seed")
    verdicts = {}
    warnings.filterwarnings("ignore")
    for name in options.sets:
        rows = SETS[name](options.data)
        wanted = {method: learn for method, learn in methods(rows).items() if method in (options.methods or [method])}
        for num_rows in options.rows:
            for seed in range(options.replays):
                key = (name, num_rows, seed)
                missing = {method: wanted[method] for method in wanted if method not in kept.values.get(key, {})}
                if not missing:
                    continue
                begun = time.perf_counter()
                kept.add(key, run(rows, num_rows, seed, missing))
                print(
                    f"{name} {num_rows} replay {seed}: {time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True
                )
            table = kept.frame(options.replays, name, num_rows)
            verdicts[name, num_rows] = tell(name, num_rows, table[list(wanted)])
    print()
    for (name, num_rows), verdict in verdicts.items():
        print(f"{name} {num_rows}: {verdict}")


if __name__ == "__main__":
    main()
