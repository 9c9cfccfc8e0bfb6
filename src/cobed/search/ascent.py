"""The one training loop: stochastic gradient ascent, jitted in chunks, that can be watched, stopped and resumed."""

import json
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from cobed.compilation import lean_jit
from cobed.errors import AscentError, StorageError
from cobed.identity import differences
from cobed.storage import write_whole
from cobed.types import Array, Float, Int, Key, PyTree

CHUNK_STEPS = 50

# How often the chunk was traced, so that tests can count recompilations.
trace_count = 0


class AscentState(eqx.Module):
    """All that the next step needs."""

    trainable: PyTree
    optimiser_state: PyTree
    step: Int[Array, ""]


class AscentResult(NamedTuple):
    """Where the ascent ended, the objective at every step on the way, and why it stopped: a sentence."""

    trainable: PyTree
    history: np.ndarray
    stop_reason: str
    interrupted: bool


ChunkReport = Callable[[int, float, float, bool], None]


class Checkpoint:
    """Files in a directory from which an ascent resumes to the same bits. One file an ascent; written whole or not at all.

    `fingerprint` is what the numbers depend on, by named parts. A directory is for one of them.
    """

    def __init__(self, directory: str | Path, fingerprint: Mapping[str, str], prefix: str = ""):
        self.directory, self.prefix, self.fingerprint = Path(directory), prefix, fingerprint
        self.directory.mkdir(parents=True, exist_ok=True)
        owner = self.directory / "fingerprint.json"
        if owner.exists() or any(self.directory.glob("*.npz")):
            self._check(owner)
        else:
            document = {"schema": 2, "parts": dict(fingerprint)}
            write_whole(owner, lambda file: file.write(json.dumps(document, indent=1).encode()))

    def _check(self, owner: Path) -> None:
        """Refuse a directory that was written for something else."""
        advice = "Give another checkpoint directory, or delete this one."
        try:
            parts = dict(json.loads(owner.read_text())["parts"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{self.directory} holds checkpoints, but {owner.name} does not say of what ({error}): it was written by an "
                f"earlier version of cobed or damaged. {advice}"
            ) from error
        if different := differences(parts, self.fingerprint):
            raise StorageError(
                f"{self.directory} was written for another design. What differs: {'; '.join(different)}. {advice}"
            )

    def within(self, prefix: str) -> "Checkpoint":
        """The same directory for files whose names begin with `prefix`."""
        return Checkpoint(self.directory, self.fingerprint, prefix)

    def save(self, name: str, state: AscentState, history: np.ndarray) -> None:
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(state, eqx.is_array))]
        arrays = {f"leaf{i}": leaf for i, leaf in enumerate(leaves)}
        write_whole(self._path(name), lambda file: np.savez(file, allow_pickle=False, history=history, **arrays))

    def load(self, name: str, like: AscentState) -> tuple[AscentState, np.ndarray] | None:
        """The saved state, in the structure of `like`; None where there is none."""
        path = self._path(name)
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays, static = eqx.partition(like, eqx.is_array)
                leaves, structure = jax.tree.flatten(arrays)
                saved = [jnp.asarray(archive[f"leaf{i}"]) for i in range(len(leaves))]
                return eqx.combine(jax.tree.unflatten(structure, saved), static), archive["history"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise StorageError(
                f"{path} cannot be read as a checkpoint ({error}). Delete it to start this part again."
            ) from error

    def _path(self, name: str) -> Path:
        return self.directory / f"{self.prefix}{name}.npz"


class Stage(NamedTuple):
    """An ascent by its name in the checkpoint; `on_chunk(step, value, seconds, compiling)` hears of every chunk."""

    name: str = "ascent"
    on_chunk: ChunkReport | None = None
    checkpoint: Checkpoint | None = None


def ascend(
    key: Key[Array, ""],
    objective: Callable[[PyTree, Key[Array, ""], Float[Array, ""]], Float[Array, ""]],
    trainable: PyTree,
    optimiser: optax.GradientTransformation,
    num_steps: int,
    stage: Stage = Stage(),  # noqa: B008
    project: Callable[[PyTree], PyTree] | None = None,
) -> AscentResult:
    """Climb `objective(trainable, key, progress)` for `num_steps`. All floating arrays in `trainable` are moved.

    After every chunk `project` takes the trainable to one that is allowed, and `stage` hears of it and keeps it. Ctrl-C ends the
    ascent with what it has; a value that is not finite ends it with the last chunk whose values were, or with `AscentError`
    where there is none.
    """
    arrays = eqx.filter(trainable, eqx.is_inexact_array)
    state = AscentState(trainable, optimiser.init(arrays), jnp.zeros((), jnp.int32))
    history = np.zeros(0, np.float32)
    name, on_chunk, checkpoint = stage
    if checkpoint is not None and (saved := checkpoint.load(name, state)) is not None:
        state, history = saved
    while (step := int(state.step)) < num_steps:
        started, traced = time.perf_counter(), trace_count
        try:
            new_state, values = _run_chunk(objective, optimiser, state, key, jnp.asarray(num_steps))
            values = np.asarray(values)[: int(new_state.step) - step]
        except KeyboardInterrupt:
            if step == 0:
                raise
            return AscentResult(state.trainable, history, f"Interrupted after {step:,} of {num_steps:,} steps.", True)
        if not np.isfinite(values).all():
            bad = step + int(np.argmax(~np.isfinite(values)))
            if step == 0:
                raise AscentError(
                    f"The objective was not a finite number at step {bad}, before any design was found. Check that the model's "
                    "rewards and outcomes are finite for every draw of the prior, or lower the step sizes of the budget."
                )
            reason = f"The objective was not a finite number at step {bad:,}; kept the design of step {step:,}."
            return AscentResult(state.trainable, history, reason, False)
        if project is not None:
            new_state = AscentState(project(new_state.trainable), new_state.optimiser_state, new_state.step)
        state, history = new_state, np.concatenate([history, values])
        if checkpoint is not None:
            checkpoint.save(name, state, history)
        if on_chunk is not None:
            on_chunk(int(state.step), float(values.mean()), time.perf_counter() - started, trace_count > traced)
    return AscentResult(state.trainable, history, f"All {num_steps:,} steps were done.", False)


@lean_jit
def _run_chunk(objective: Any, optimiser: Any, state: AscentState, key: Key[Array, ""], total: Int[Array, ""]):
    """At most `CHUNK_STEPS` steps. The end is a traced number, so that a short last chunk needs no compilation."""
    global trace_count
    trace_count += 1
    first = state.step

    def loss(trainable, step):
        return -objective(trainable, jr.fold_in(key, step), step / total)

    def body(_, carry):
        state, values = carry
        value, gradient = eqx.filter_value_and_grad(loss)(state.trainable, state.step)
        arrays = eqx.filter(state.trainable, eqx.is_inexact_array)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser_state, arrays)
        trainable = eqx.apply_updates(state.trainable, updates)
        return AscentState(trainable, optimiser_state, state.step + 1), values.at[state.step - first].set(-value)

    arrays, static = eqx.partition((state, jnp.zeros(CHUNK_STEPS)), eqx.is_array)
    stop = jnp.minimum(CHUNK_STEPS, total - first)

    def array_body(i, arrays):
        return eqx.filter(body(i, eqx.combine(arrays, static)), eqx.is_array)

    return eqx.combine(jax.lax.fori_loop(0, stop, array_body, arrays), static)
