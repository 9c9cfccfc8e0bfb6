"""Ways to design for outcomes that are 0 or 1, or counts, through which no gradient passes: seconds and regret of each.

40 units, 4 offers, 3 context columns, 100 targets. Two offers are in use and well known (a fifth of the default prior
deviations), two are new (the defaults). The ways:

  closed form        the value of the experiment from the averaged Fisher information (what `auto` takes)
  moments            the value from moments of simulated outcomes (what `auto` takes for programs and simulators without gradient)
  straight-through   Barber-Agakov on exact draws, the gradient of a draw taken to be that of its mean
  normal stand-in    Barber-Agakov on normal outcomes of the same mean and variance
  concrete           Barber-Agakov on outcomes relaxed to (0, 1) at temperature .5 (binary only)
  score function     Barber-Agakov on exact draws, by the gradient of their log-probability with a leave-one-out baseline

Regret is in probability or counts, over worlds that are the same for all, under the posterior around the mode (Pareto k checked).
Run: python benchmarks/outcomes.py [--likelihoods bernoulli poisson] [--worlds 1000] [--seeds 2] [--steps 1000]
    [--ways moments Random]
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from replay import table

import cobed
from cobed.campaign.engine import DEFAULT_DEVIATIONS
from cobed.designers.baselines import RandomUniform, Thompson
from cobed.models.base import AbstractModel
from cobed.models.glm import GeneralisedLinear, LinearFeatures
from cobed.objectives import AbstractObjective, BarberAgakov, choose_objective
from cobed.spaces import AbstractSpace

NUM_UNITS, NUM_OFFERS, NUM_COLUMNS, NUM_TARGETS = 40, 4, 3, 100
CENTER = {"bernoulli": -1.0, "poisson": 0.0}
WAYS = ("closed form", "moments", "straight-through", "normal stand-in", "concrete", "score function")
BASELINES = {"Random": RandomUniform(), "Thompson": Thompson()}


def make_problem(likelihood) -> cobed.Problem:
    features = LinearFeatures(cobed.Discrete(NUM_OFFERS), NUM_COLUMNS)
    deviations = features.by_kind(**DEFAULT_DEVIATIONS)
    # The coefficients of the offers follow the baseline and the contexts: own terms, then offer by context.
    own = deviations[1 + NUM_COLUMNS :]
    own[:2] /= 5
    own[NUM_OFFERS : NUM_OFFERS + 2 * NUM_COLUMNS] /= 5
    model = GeneralisedLinear(features, features.by_kind(CENTER[likelihood], 0, 0, 0), deviations, likelihood)
    rng = np.random.default_rng(0)
    return cobed.Problem(model, rng.normal(size=(NUM_UNITS, NUM_COLUMNS)), rng.normal(size=(NUM_TARGETS, NUM_COLUMNS)))


class Other(AbstractModel):
    """The same model with another way to an outcome."""

    model: GeneralisedLinear
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)
    relaxed: bool = eqx.field(static=True)

    def __init__(self, model: GeneralisedLinear, relaxed: bool):
        self.model, self.relaxed = model, relaxed
        self.action_space, self.context_dim = model.action_space, model.context_dim

    def sample_prior(self, key):
        return self.model.sample_prior(key)

    def mean_reward(self, params, context, action):
        return self.model.mean_reward(params, context, action)

    def sample_outcome(self, key, params, context, action):
        if not self.relaxed:
            return jax.lax.stop_gradient(self.model.sample_outcome(key, params, context, action))
        log_odds = jax.scipy.special.logit(self.mean_reward(params, context, action))
        return jax.nn.sigmoid((log_odds + jr.logistic(key)) / 0.5)


class NormalStandIn(AbstractModel):
    """Normal outcomes in the place of binary ones or counts: the same mean, and the variance at the mean of the prior.

    Its outcomes can be differentiated in the action. A variance that moved with psi would itself tell about psi, which one 0
    or 1 does not.
    """

    model: GeneralisedLinear
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)

    def __init__(self, model: GeneralisedLinear):
        self.model, self.action_space, self.context_dim = model, model.action_space, model.context_dim

    def sample_prior(self, key):
        return self.model.sample_prior(key)

    def mean_reward(self, params, context, action):
        return self.model.mean_reward(params, context, action)

    def sample_outcome(self, key, params, context, action):
        variance = self.model.outcome_variance(jnp.asarray(self.model.prior_mean, jnp.float32), context, action)
        return self.mean_reward(params, context, action) + jnp.sqrt(variance) * jr.normal(key)


class ScoreFunction(AbstractObjective):
    """Barber-Agakov whose gradient in the design comes by E[(score - baseline) d log p(y | design)]."""

    trains = True
    inner: BarberAgakov
    model: GeneralisedLinear

    @property
    def name(self):
        return "score function"

    @property
    def offset(self):
        return self.inner.offset

    def __call__(self, trainable, key, progress):
        return jnp.mean(jax.vmap(lambda k: self._one(trainable, k, progress))(jr.split(key, 4)))

    def _one(self, trainable, key, progress):
        simulation = self.inner.simulation
        problem = simulation.problem
        draw_key, noise_key, design_key = jr.split(key, 3)
        params, values = simulation.source.batch(draw_key, simulation.batch_size)
        actions = trainable.design.sample(design_key, *simulation.temperature(progress))
        keys = jr.split(noise_key, simulation.batch_size)
        outcomes = jax.vmap(problem.sample_outcomes, in_axes=(0, 0, None))(keys, params, actions)
        scaled = simulation.outcome_scale(outcomes, actions)
        scores = trainable.network(scaled, self.inner.components(values), actions)

        def log_likelihood(psi, outcomes):
            rows = jax.vmap(self.model.log_likelihood, in_axes=(None, 0, 0, 0))
            return jnp.sum(rows(psi, problem.contexts, actions, outcomes))

        logs = jax.vmap(log_likelihood)(params, outcomes)
        # The mean of the others is the baseline.
        excess = (scores - jnp.mean(scores)) * len(scores) / (len(scores) - 1)
        return jnp.mean(scores + jax.lax.stop_gradient(excess) * (logs - jax.lax.stop_gradient(logs)))

    def initial_network(self, key):
        return self.inner.initial_network(key)

    def resized(self, batch_size):
        return ScoreFunction(self.inner.resized(batch_size), self.model)

    def freeze(self, network, key, design):
        return self.inner.freeze(network, key, design)


def design(way: str, problem: cobed.Problem, seed: int, num_steps: int) -> np.ndarray:
    budget = cobed.Budget(
        num_steps=num_steps, num_starts=1, settle_steps=1, settle_batch_size=512, num_evaluation_batches=1
    )
    model = problem.model
    assert isinstance(model, GeneralisedLinear)
    if way == "closed form":
        return cobed.design(problem, seed=seed, budget=budget.replace(num_starts=None)).actions
    if way == "normal stand-in":
        problem = cobed.Problem(NormalStandIn(model), problem.contexts, problem.targets)
    elif way in ("concrete", "score function", "moments"):
        problem = cobed.Problem(Other(model, way == "concrete"), problem.contexts, problem.targets)
    objective = "auto" if way == "moments" else "barber-agakov"
    if way == "score function":
        inner = choose_objective(jr.key(seed), problem, budget.resolved(problem), "barber-agakov").objective
        objective = ScoreFunction(inner, model)  # pyright: ignore[reportArgumentType]
    return cobed.design(problem, seed=seed, budget=budget, objective=objective).actions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--likelihoods", nargs="+", default=list(CENTER), choices=list(CENTER))
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--ways", nargs="+", default=[*WAYS, *BASELINES], choices=[*WAYS, *BASELINES])
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    for likelihood in arguments.likelihoods:
        problem = make_problem(likelihood)
        found: dict[str, list[np.ndarray]] = {}
        for way in arguments.ways:
            if way == "concrete" and likelihood == "poisson":
                continue
            for seed in range(arguments.seeds):
                started = time.perf_counter()
                if way in BASELINES:
                    actions = BASELINES[way](problem, seed=seed).actions
                else:
                    actions = design(way, problem, seed, arguments.steps)
                seconds = time.perf_counter() - started
                scores = cobed.evaluate(problem, actions, arguments.worlds, seed=jr.key(100 + seed))
                found.setdefault(way, []).append(scores.regret.per_world)
                print(
                    f"{likelihood} {way:17} seed {seed} {seconds:6.1f} s  regret {scores.regret}  units an offer "
                    f"{actions.sum(axis=0).astype(int).tolist()}  k {scores.diagnostics['pareto_k']:.2f}",
                    *scores.warnings,
                    flush=True,
                )
        table({way: np.concatenate(values) for way, values in found.items()}, "closed form", "regret")


if __name__ == "__main__":
    main()
