"""How much computing to spend, by name or in detail, and what it will cost before it starts."""

import dataclasses
import functools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from cobed.critics import Joint, Separable
from cobed.errors import BudgetError
from cobed.policies import Temperature
from cobed.pool import bytes_per_draw, is_cheap
from cobed.problem import Problem
from cobed.progress import format_seconds
from cobed.types import Array, Float, PyTree

# Discrete designs have many local optima and noisy gradients: that many starts, and samples of the design a step, where
# the budget leaves it open.
DISCRETE_STARTS = 8
DISCRETE_SAMPLES = 4


@dataclass(frozen=True)
class Budget:
    """Training of a design, then of a critic for the final design on larger batches. Small batches design, large ones evaluate.

    `optimiser` "muon" orthogonalises the critic's weight updates and needs far fewer steps than "adam", the paper's.
    `schedule` "cosine" ends at zero; "exponential" is the paper's decay by 0.96 every 1,000 steps. `num_starts` None means 8
    where an action has a discrete part, else 1. The design rests for the first `design_delay` of the steps (None: 0.2 with
    discrete parts, else 0), until the critic's gradients mean something. A step simulates `batch_size` experiments, shared
    out over `num_samples` of the design (None: 4 where it is random, else 1). `design_rate` None is 0.1 for logits, 0.05 else.
    Objectives without a network take `closed_form_steps`, from 16 starts where `num_starts` is None. Those with one begin at a
    design by second moments where actions are numbers, found in `warm_steps`; the other starts are random.
    """

    num_steps: int = 1_500
    closed_form_steps: int = 400
    warm_steps: int = 200
    batch_size: int = 1_024
    num_starts: int | None = None
    settle_steps: int = 600
    settle_batch_size: int = 2_048
    num_evaluation_batches: int = 16
    optimiser: Literal["muon", "adam"] = "muon"
    schedule: Literal["cosine", "exponential"] = "cosine"
    critic_rate: float = 2e-2
    design_rate: float | None = None
    design_delay: float | None = None
    pool_size: int = 65_536
    num_samples: int | None = None
    temperature: Temperature = Temperature()  # noqa: RUF009 - frozen

    def __post_init__(self):
        for field in (
            "num_steps",
            "closed_form_steps",
            "settle_batch_size",
            "num_evaluation_batches",
            "batch_size",
            "num_starts",
        ):
            value, least = getattr(self, field), 2 if field in ("batch_size", "settle_batch_size") else 1
            if not (value is None and field == "num_starts") and not (isinstance(value, int) and value >= least):
                raise BudgetError(f"Budget.{field} must be a whole number of at least {least}, got {value!r}.")
        for field in ("warm_steps", "settle_steps"):
            value = getattr(self, field)
            if not (isinstance(value, int) and value >= 0):
                raise BudgetError(f"Budget.{field} must be a whole number of at least 0, got {value!r}.")
        largest = max(self.batch_size, self.settle_batch_size)
        if self.pool_size < largest:
            raise BudgetError(f"Budget.pool_size ({self.pool_size:,}) must hold at least one batch of {largest:,}.")
        if self.optimiser not in ("muon", "adam") or self.schedule not in ("cosine", "exponential"):
            raise BudgetError(
                "Budget.optimiser must be 'muon' or 'adam' and schedule 'cosine' or 'exponential', "
                f"got {self.optimiser!r} and {self.schedule!r}."
            )
        if not (self.critic_rate > 0 and (self.design_rate is None or self.design_rate > 0)):
            raise BudgetError(f"Budget step sizes must be positive, got {self.critic_rate!r} and {self.design_rate!r}.")
        if self.num_samples is not None and not 1 <= self.num_samples <= self.batch_size // 2:
            raise BudgetError(
                f"Budget.num_samples must leave at least 2 of the {self.batch_size} experiments of a batch to each sample, "
                f"got {self.num_samples!r}."
            )
        if self.design_delay is not None and not 0 <= self.design_delay < 1:
            raise BudgetError(
                f"Budget.design_delay is a fraction of the steps, from 0 to below 1, got {self.design_delay!r}."
            )

    def replace(self, **changes) -> "Budget":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def resolved(self, problem: Problem) -> "Budget":
        """The budget with everything left open filled in for this problem."""
        discrete = len(problem.model.action_space.enumerate_discrete()) > 1
        return self.replace(
            num_starts=self.num_starts or (DISCRETE_STARTS if discrete else 1),
            design_rate=self.design_rate or (0.1 if discrete else 0.05),
            num_samples=self.num_samples or (min(DISCRETE_SAMPLES, self.batch_size // 2) if discrete else 1),
            design_delay=(0.2 if discrete else 0.0) if self.design_delay is None else self.design_delay,
        )


BUDGETS = {
    "smoke": Budget(
        num_steps=100, closed_form_steps=40, warm_steps=20, batch_size=128, num_starts=1, settle_steps=50, settle_batch_size=256,
        num_evaluation_batches=4,
    ),
    "quick": Budget(),
    "paper": Budget(
        num_steps=50_000, warm_steps=0, batch_size=2_048, num_starts=1, settle_steps=5_000, num_evaluation_batches=64,
        optimiser="adam", schedule="exponential", critic_rate=1e-3, design_rate=1e-2, design_delay=0.0,
        num_samples=1, temperature=Temperature(2.0, 0.5, 5, 0.2),
    ),
}  # fmt: skip


def find_budget(budget: str | Budget) -> Budget:
    """The budget itself, or the one of that name."""
    if isinstance(budget, Budget):
        return budget
    if budget not in BUDGETS:
        raise BudgetError(
            f"Unknown budget {budget!r}. Allowed: {', '.join(map(repr, BUDGETS))}, or a cobed.Budget of your own."
        )
    return BUDGETS[budget]


def make_optimiser(budget: Budget, num_steps: int) -> optax.GradientTransformation:
    """Ascent directions for a `Trainable`: the network by `budget.optimiser`, the design by Adam at its own pace.

    Rates and steps are arrays of a module, so that ascents of any length at any rate share one compilation.
    """
    rates = jnp.array([num_steps, budget.critic_rate, budget.design_rate or 0.0, budget.design_delay or 0.0])
    optimiser = _Optimiser(budget.optimiser, budget.schedule, *rates)
    return optax.GradientTransformation(optimiser.init, optimiser.update)


class _Optimiser(eqx.Module):
    kind: str = eqx.field(static=True)
    schedule: str = eqx.field(static=True)
    num_steps: Float[Array, ""]
    network_peak: Float[Array, ""]
    design_peak: Float[Array, ""]
    delay: Float[Array, ""]

    def init(self, params: PyTree) -> optax.OptState:
        return self._transformation().init(params)

    def update(self, updates: PyTree, state: optax.OptState, params: PyTree = None) -> tuple[PyTree, optax.OptState]:
        return self._transformation().update(updates, state, params)

    def _transformation(self) -> optax.GradientTransformation:
        def network_rate(count):
            return self.network_peak * self._decay(count, jnp.minimum(100, self.num_steps // 10))

        def design_rate(count):
            return self.design_peak * jnp.where(count < self.delay * self.num_steps, 0.0, self._decay(count, 0.0))

        network = optax.contrib.muon(network_rate) if self.kind == "muon" else optax.adam(network_rate)
        return optax.partition({"network": network, "design": optax.adam(design_rate)}, _labels)

    def _decay(self, count, warm_up):
        if self.schedule == "exponential":
            return 0.96 ** (count / 1_000)
        share = jnp.clip((count - warm_up) / (self.num_steps - warm_up), 0.0, 1.0)
        return jnp.where(count < warm_up, count / jnp.maximum(warm_up, 1.0), 0.5 * (1 + jnp.cos(jnp.pi * share)))


def _labels(trainable):
    """Which optimiser moves which array of a `Trainable`."""
    return jax.tree_util.tree_map_with_path(lambda path, _: path[0].name, trainable)


class Cost(NamedTuple):
    """What a design is expected to cost on this machine."""

    seconds: float
    bytes: int

    def __str__(self) -> str:
        return f"about {format_seconds(max(self.seconds, 1))} and {self.bytes / 2**30:.1f} GiB of memory"


def estimate_cost(problem: Problem, budget: Budget, critic: Separable | Joint) -> Cost:
    """Seconds from the multiplications to do and the pace of one product timed now; bytes from the arrays alive at once."""
    budget = budget.resolved(problem)
    units = problem.num_contexts + 2 * problem.num_targets
    design = _step_cost(critic, budget.batch_size, units)
    settle = _step_cost(critic, budget.settle_batch_size, units)
    num_starts = budget.num_starts or 1
    evaluation = settle[0] / 3 * budget.num_evaluation_batches
    ranking = budget.settle_steps if num_starts > 1 else 0
    starts = num_starts * ((budget.num_steps + ranking) * design[0] + evaluation)
    flops = starts + budget.settle_steps * settle[0] + evaluation
    memory = max(design[1], settle[1])
    if not is_cheap(problem):
        memory += budget.pool_size * bytes_per_draw(problem)
    return Cost(COMPILE_SECONDS + flops / _flops_per_second(), memory)


COMPILE_SECONDS = 6.0


def _step_cost(critic: Separable | Joint, batch: int, units: int) -> tuple[float, int]:
    """Floating-point operations and bytes of one training step."""
    multiplications, activations = critic.work(batch, units)
    return 6.0 * multiplications, 4 * 2 * activations


@functools.cache
def _flops_per_second(size: int = 512) -> float:
    matrix = jnp.ones((size, size))
    (matrix @ matrix).block_until_ready()
    started = time.perf_counter()
    for _ in range(4):
        (matrix @ matrix).block_until_ready()
    return 4 * 2 * size**3 / (time.perf_counter() - started)


def check_memory(cost: Cost) -> None:
    """Raise `BudgetError` where the design would not fit in this machine's free memory."""
    free = _free_bytes()
    if free is not None and cost.bytes > free:
        raise BudgetError(
            f"This budget needs {cost.bytes / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free. "
            "The scores of a batch take batch_size^2 numbers: lower batch_size or settle_batch_size."
        )


def _free_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not tell (it is Linux that does)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)
