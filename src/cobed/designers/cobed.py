"""The paper's designer: climb an information bound over design and critic at once, from several starts, keep the best."""

import time
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.ascent import Checkpoint, ascend
from cobed.budget import Budget, check_memory, estimate_cost, find_budget, make_optimiser
from cobed.compilation import quick_jit
from cobed.critics import AbstractCritic, Joint, Separable
from cobed.designers.result import DesignResult, StartRecord, fingerprint
from cobed.information import About, Estimate, build_critic, evaluate_critic, make_objective, saturation_warning, settle
from cobed.objectives import InfoNCE, Trainable
from cobed.policies import FreeDesign
from cobed.problem import Problem
from cobed.progress import Clock, Progress, Reporter
from cobed.types import Array, Key


def design(
    problem: Problem,
    *,
    seed: int,
    budget: str | Budget = "quick",
    about: About = "max-values",
    critic: Separable | Joint | None = None,
    progress: Reporter | None = None,
    checkpoint: str | Path | None = None,
) -> DesignResult:
    """The batch of actions on `problem.contexts` that tells most about the best rewards at `problem.targets`.

    Same seed, same numbers. `progress` hears how far the work is (`cobed.ConsoleReporter()` prints it). With a
    `checkpoint` directory an interrupted call resumes to the result it would have had. Ctrl-C returns the best design so
    far. The reported information is measured on fresh draws at the hardened design, with a critic settled there.
    `about="parameters"` asks for information on all of psi instead: the classical objective, which spends units on
    actions that cannot be the best ones.

    >>> import cobed
    >>> from cobed.models import discrete
    >>> problem = cobed.Problem(cobed.models.DiscreteExample(), discrete.contexts(), -discrete.contexts())
    >>> result = cobed.design(problem, seed=0, budget="smoke")
    >>> result.actions.shape
    (10, 4)
    """
    asked = find_budget(budget)
    budget = asked.resolved(problem)
    spec = critic or Separable()
    check_memory(estimate_cost(problem, budget, spec))
    mark = fingerprint(problem, seed=seed, budget=budget, about=about, critic=spec)
    kept = Checkpoint(checkpoint, mark) if checkpoint else None
    run = _Run(problem, budget, about, spec, jr.key(seed), progress, kept)
    starts: list[StartRecord] = []
    for index in range(budget.num_starts or 1):
        record = run.start(index, any_before=bool(starts))
        if record is not None:
            starts.append(record)
        if run.interrupted:
            break
    chosen = max(range(len(starts)), key=lambda i: starts[i].information.value)
    best = starts[chosen]
    information = run.measure(best, chosen)
    warning = saturation_warning(information, budget.settle_batch_size)
    return DesignResult(
        method="CO-BED" if about == "max-values" else "EIG",
        actions=best.actions,
        labels=[problem.model.action_space.label(action) for action in best.actions],
        contexts=np.asarray(problem.contexts),
        information=information,
        starts=starts,
        stop_reason=run.stop_reason,
        seed=seed,
        seconds_design=run.seconds_design,
        seconds_evaluation=run.seconds_evaluation,
        warnings=[warning] if warning else [],
        settings={"budget": _plain(budget), "critic": repr(spec)},
        fingerprint=mark,
        interrupted=run.interrupted,
    )


@quick_jit
def _initial(
    design_key: Key[Array, ""], critic_key: Key[Array, ""], objective: InfoNCE, spec: Separable | Joint
) -> Trainable:
    """A random design and an untrained critic."""
    problem = objective.problem
    design = FreeDesign.initial(design_key, problem.model.action_space, problem.num_contexts)
    return Trainable(design, build_critic(critic_key, objective, spec))


class _Run:
    """One call of `design`: what its starts share, and the clock."""

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        about: About,
        spec: Separable | Joint,
        key: Key[Array, ""],
        reporter: Reporter | None,
        checkpoint: Checkpoint | None,
    ):
        self.problem, self.budget, self.spec = problem, budget, spec
        self.reporter, self.checkpoint = reporter, checkpoint
        setup_key, self.start_key, self.evaluation_key = jr.split(key, 3)
        self.seconds_design = self.seconds_evaluation = 0.0
        started = time.perf_counter()
        self.objective: InfoNCE = make_objective(setup_key, problem, budget, about)
        self.optimiser = make_optimiser(budget, budget.num_steps)
        self.seconds_design += time.perf_counter() - started
        self.interrupted = False
        self.stop_reason = ""
        self._critics: list[AbstractCritic] = []
        # Work in units of one training step at the design's batch size.
        num_starts = budget.num_starts or 1
        starts_work = num_starts * (budget.num_steps + (budget.settle_steps if num_starts > 1 else 0))
        self._clock = Clock(starts_work + budget.settle_steps * budget.settle_batch_size / budget.batch_size)

    def start(self, index: int, any_before: bool) -> StartRecord | None:
        """Train from one random start and measure the design it ends in. None where it was interrupted at once."""
        budget, num_starts = self.budget, self.budget.num_starts or 1
        key = jr.fold_in(self.start_key, index)
        design_key, critic_key, train_key, settle_key = jr.split(key, 4)
        name = f"start {index + 1} of {num_starts}"
        trainable = _initial(design_key, critic_key, self.objective, self.spec)
        started = time.perf_counter()
        try:
            trained = ascend(
                train_key,
                self.objective,
                trainable,
                self.optimiser,
                budget.num_steps,
                name=f"start{index}-design",
                on_chunk=self._report(f"{name}: design", budget.num_steps, 1.0),
                checkpoint=self.checkpoint,
            )
        except KeyboardInterrupt:
            if not any_before:
                raise
            self._interrupt(f"Interrupted in {name}; kept the best of the {index} before.")
            return None
        finally:
            self.seconds_design += time.perf_counter() - started
        self.stop_reason = trained.stop_reason
        self.interrupted = trained.interrupted
        started = time.perf_counter()
        actions, network = trained.trainable.design.harden(), trained.trainable.critic
        if not self.interrupted and num_starts > 1:
            # Small batches are enough to rank the starts.
            network = self._settle(settle_key, name, actions, network, f"start{index}-settle", budget.batch_size)
        # Every start is judged on the same draws.
        information = evaluate_critic(jr.fold_in(self.evaluation_key, 0), self.objective, actions, network, budget)
        record = StartRecord(trained.history, np.asarray(actions), information)
        self._critics.append(network)
        self.seconds_evaluation += time.perf_counter() - started
        return record

    def measure(self, record: StartRecord, index: int) -> Estimate:
        """The information of the start that was kept: critic settled on large batches, draws that did not choose it."""
        started = time.perf_counter()
        actions, network = jnp.asarray(record.actions), self._critics[index]
        settle_key, measure_key = jr.split(jr.fold_in(self.evaluation_key, 1))
        if not self.interrupted:
            network = self._settle(
                settle_key, "chosen design", actions, network, "settle", self.budget.settle_batch_size
            )
        information = evaluate_critic(measure_key, self.objective, actions, network, self.budget)
        self.seconds_evaluation += time.perf_counter() - started
        return information

    def _settle(self, key, stage: str, actions, network: AbstractCritic, name: str, batch_size: int) -> AbstractCritic:
        weight = batch_size / self.budget.batch_size
        on_chunk = self._report(f"{stage}: critic", self.budget.settle_steps, weight)
        try:
            network, result = settle(
                key, self.objective, actions, network, self.budget, self.budget.settle_steps, batch_size,
                name=name, on_chunk=on_chunk, checkpoint=self.checkpoint,
            )  # fmt: skip
        except KeyboardInterrupt:
            self._interrupt(f"{self.stop_reason} Interrupted before the critic could settle.")
        else:
            if result is not None and result.interrupted:
                self._interrupt(f"{self.stop_reason} Critic: {result.stop_reason}")
        return network

    def _interrupt(self, reason: str) -> None:
        self.interrupted, self.stop_reason = True, reason

    def _report(self, stage: str, num_steps: int, weight: float):
        def on_chunk(step: int, value: float, seconds: float, compiling: bool, last=[0]) -> None:  # noqa: B006
            left = self._clock.advance((step - last[0]) * weight, seconds, compiling=compiling)
            last[0] = step
            if self.reporter is not None:
                self.reporter(Progress(stage, step, num_steps, value, left))

        return on_chunk


def _plain(budget: Budget) -> dict:
    """A budget as JSON can hold it."""
    return {
        name: value if isinstance(value, int | float | str | None) else repr(value)
        for name, value in vars(budget).items()
    }
