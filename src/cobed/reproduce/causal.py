"""The paper's unknown causal graph: 200 units, actions in [0, 1]^l, deployment in all 255 contexts."""

import functools
from collections.abc import Iterator, Sequence

import jax
import jax.random as jr
import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cobed.budget import BUDGETS, Budget
from cobed.designers.baselines import RandomCorners, Thompson
from cobed.designers.sparse import EntrywiseUCB
from cobed.experiment import run_experiment
from cobed.inference.spike_slab import SpikeAndSlab
from cobed.metrics import evaluate
from cobed.models import CausalGraph, causal
from cobed.problem import Problem
from cobed.report.page import Page
from cobed.reproduce.experiment import (
    Claim,
    Effort,
    Experiment,
    Groups,
    Setting,
    baselines,
    cobed_method,
    same_for_all_seeds,
)
from cobed.reproduce.figures import metric_figure
from cobed.reproduce.lasso import cross_validate
from cobed.reproduce.protocol import Keys, Worlds, per_world
from cobed.reproduce.study import Record
from cobed.reproduce.summary import (
    TITLES,
    best_other,
    by_method,
    comparison_table,
    difference_table,
    ratio,
    summarise,
    table_over,
    values_of,
)  # fmt: skip

NUM_CONTEXTS = 200
# The paper draws the contexts once, for all methods and seeds.
CONTEXT_SEED = 0
# Draws of the spike-and-slab posterior in each world.
NUM_DRAWS = 64
PROTOCOLS = {"paper": "the Lasso", "exact": "the spike-and-slab posterior"}
REFERENCE = "Random_.5"

# `num_worlds` are worlds decided by the posterior, `num_paper_worlds` by the Lasso.
EFFORTS = {
    "smoke": Effort(BUDGETS["smoke"], BUDGETS["smoke"], num_worlds=4, num_paper_worlds=20, num_seeds=1),
    "quick": Effort(
        Budget(num_steps=500, batch_size=512, settle_steps=0, num_evaluation_batches=1),
        Budget(num_steps=200, batch_size=512, settle_steps=0, num_evaluation_batches=4),
        num_worlds=100, num_paper_worlds=2_000, num_seeds=1,
    ),
    # The critic's settings of the paper; CO-BED's own objective needs few steps and no critic.
    "paper": Effort(
        Budget(num_steps=50_000, batch_size=2_048),
        Budget(num_steps=50_000, batch_size=2_048, settle_batch_size=4_096),
        num_worlds=2_000, num_paper_worlds=10_000, num_seeds=4,
    ),
}  # fmt: skip

# The numbers of activities, those of them where CO-BED also climbs InfoNCE, and the number of units.
ALL = (5, 10, 15, 20, 25)
SIZES = {"smoke": ((5,), (5,), 30), "quick": (ALL, (20,), NUM_CONTEXTS), "paper": (ALL, ALL, NUM_CONTEXTS)}
BASELINES = (*map(RandomCorners, (0.5, 0.667, 0.75, 0.833)), EntrywiseUCB(1.0), Thompson())


def make_problem(num_actions: int, num_contexts: int = NUM_CONTEXTS) -> Problem:
    """The paper's problem with l = `num_actions` activities."""
    contexts = causal.contexts(jr.key(CONTEXT_SEED), num_contexts)
    return Problem(CausalGraph(num_actions), contexts, causal.targets())


def settings(budget: str, effort: Effort) -> Iterator[Setting]:
    sizes, infonce_sizes, num_contexts = SIZES[budget]
    for size in sizes:
        methods = [*baselines(BASELINES, size), cobed_method("CO-BED", work=3 * size, budget=effort.design)]
        if size in infonce_sizes:
            methods.append(cobed_method("CO-BED (infonce)", work=3 * size, objective="infonce", budget=effort.design))
        problem = same_for_all_seeds(make_problem, size, num_contexts)
        yield Setting({"l": size}, problem, methods, both_scores)


def both_scores(keys: Keys, problem: Problem, actions: np.ndarray, effort: Effort) -> Worlds:
    """Protocol `paper`: the Lasso, its penalty cross-validated once for the design. `exact`: the spike-and-slab posterior."""
    penalty_key, lasso_key, posterior_key = jr.split(keys.exact, 3)
    lasso, posterior = cross_validate(penalty_key, problem, actions), SpikeAndSlab(NUM_DRAWS)
    runs = {
        "paper": (effort.num_paper_worlds, lasso, lasso_key),
        "exact": (effort.num_worlds, posterior, posterior_key),
    }
    return {
        protocol: per_world(evaluate(problem, actions, num_worlds, sampler=sampler, seed=key))
        for protocol, (num_worlds, sampler, key) in runs.items()
    }


def graph_figure(problem: Problem, actions: np.ndarray, seed: int = 0) -> go.Figure:
    """w of one world, its posterior mean and its Lasso estimate, after the experiment `actions`, on one scale."""
    world_key, noise_key, posterior_key, penalty_key = jr.split(jr.key(seed), 4)
    world = problem.sample_world(world_key)
    data = run_experiment(problem, world, actions, seed=noise_key)
    posterior = SpikeAndSlab(512).posterior(posterior_key, problem.model, data)
    lasso = cross_validate(penalty_key, problem, actions).posterior(posterior_key, problem.model, data)
    mean = jax.tree.map(lambda draws: draws.mean(axis=0), posterior.params)
    panels = {"True w": world, "Posterior mean": mean, "Lasso": lasso.params[0]}
    figure = make_subplots(rows=len(panels), cols=1, subplot_titles=list(panels), shared_xaxes=True)
    for row, values in enumerate(panels.values(), start=1):
        values = np.asarray(values, np.float64)
        numbers = [[1 + i for i in range(length)] for length in values.shape]
        figure.add_heatmap(z=values, y=numbers[0], x=numbers[1], coloraxis="coloraxis", row=row, col=1)
    top = float(np.max(np.asarray(world)))
    return figure.update_layout(
        title="A causal graph and what was learned of it",
        coloraxis={"colorscale": "RdBu", "cmid": 0.0, "cmin": -top, "cmax": top},
        xaxis3_title="activity", yaxis2_title="business area", template="plotly_white", height=760,
    )  # fmt: skip


def share_of_reference(protocol: str, records: Sequence[Record], groups: Groups) -> str | None:
    return ratio(summarise(records, "regret", protocol), summarise(groups.get(REFERENCE, []), "regret", protocol))


def posterior_share(records: Sequence[Record], groups: Groups) -> str | None:
    return ratio(summarise(records, "regret", "exact"), summarise(records, "regret", "paper"))


def report(page: Page, records: Sequence[Record], budget: str) -> None:
    axis = {"xaxis_title": "l, number of activities"}
    for protocol, name in PROTOCOLS.items():
        page.heading(f"Protocol {protocol}: {name}")
        for metric in ("regret", "mse_a", "mse_m"):
            titles = {"title": f"{TITLES[metric]}, by {name}", "yaxis_title": TITLES[metric]}
            page.figure(metric_figure(records, "l", metric, protocol, **titles, **axis))
        page.text(f"Regret as a share of that of {REFERENCE}")
        page.table(table_over(records, "l", functools.partial(share_of_reference, protocol)))
        page.text("Regret above CO-BED's on the same worlds")
        page.table(difference_table(records, "l", "regret", protocol=protocol))
        for number in values_of(records, "l"):
            page.heading(f"l = {number}, protocol {protocol}")
            page.table(comparison_table(by_method(records, l=number), protocol))
    page.heading("What the posterior gains")
    page.text("Regret by the posterior as a share of that by the Lasso")
    page.table(table_over(records, "l", posterior_share))
    page.heading("Information")
    page.figure(metric_figure(records, "l", "cmv_eig", title="CMV-EIG", yaxis_title="nats", **axis))
    page.text("At most the logarithm of the batch, which most designs are near: it does not rank them.", note=True)
    # The picture is of the largest graph the paper's text speaks of, or the largest there is.
    sizes, _, num_contexts = SIZES[budget]
    size = 20 if 20 in sizes else sizes[-1]
    page.heading(f"One world with l = {size}, after CO-BED's experiment")
    page.figure(graph_figure(make_problem(size, num_contexts), by_method(records, l=size)["CO-BED"][0].actions))


def has_the_lowest_regret(groups: Groups, protocol: str) -> bool:
    rival = best_other(groups, protocol)
    return rival is not None and rival.excess.mean > 0


EXPERIMENT = Experiment(
    name="causal",
    title="CO-BED, the unknown causal graph",
    about="How much of each of l activities to give each of some 200 units, to learn which activity raises the revenue of which "
    "business area? Deployment in all 255 contexts.",
    choices=(
        "Two protocols. `paper`: w is estimated by the Lasso on y + s with the covariates c_i a_j, without intercept; its "
        "penalty is chosen by 5-fold cross-validation once for each method, seed and l. `exact`: the posterior of w under the "
        "prior itself, zero or half-normal, by Gibbs sampling; the Lasso knows neither the sign of the effects nor how many "
        "there are.",
        "Random_.5 is not in the paper, and is the strongest of its random baselines. UCB bounds every entry of w by its prior "
        "mean plus one standard deviation, so that each unit gets all activities or none: two and more active areas get all. "
        "Two standard deviations give the same design.",
        "CO-BED chose its objective by itself: the value of the experiment from the moments of w, as if w were Gaussian. CO-BED "
        "(infonce) climbs the paper's bound, which is near its ceiling, log batch, from the start.",
    ),
    efforts=EFFORTS,
    settings=settings,
    report=report,
    claims=[Claim("CO-BED has the lowest regret", has_the_lowest_regret)],
)
