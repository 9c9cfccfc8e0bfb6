"""The training loop: resumes to the same bits, survives Ctrl-C and NaN, compiles once."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from cobed.errors import AscentError, StorageError
from cobed.search import ascent
from cobed.search.ascent import CHUNK_STEPS, Checkpoint, Stage, ascend

NUM_STEPS = 2 * CHUNK_STEPS + 7


def noisy_bowl(trainable, key, progress):
    """Maximum 0 at 1, seen through noise."""
    return -jnp.sum((trainable["x"] - 1) ** 2) + jnp.sum(jr.normal(key, (3,)) * trainable["x"])


OPTIMISER = optax.adam(0.05)


def start():
    return {"x": jnp.zeros(3)}


def climb(objective=noisy_bowl, num_steps=NUM_STEPS, **options):
    return ascend(jr.key(0), objective, start(), OPTIMISER, num_steps, Stage(**options))


class Killed(Exception):
    pass


def kill_after(num_chunks):
    calls = []

    def on_chunk(*_):
        calls.append(1)
        if len(calls) == num_chunks:
            raise Killed

    return on_chunk


def test_all_steps_are_done_and_the_history_has_one_value_each():
    result = climb()
    assert result.stop_reason == f"All {NUM_STEPS:,} steps were done."
    assert result.history.shape == (NUM_STEPS,)
    assert np.all(np.abs(result.trainable["x"] - 1) < 0.6)


@pytest.mark.parametrize("num_chunks", [1, 2])
def test_a_killed_ascent_resumes_to_the_same_bits(tmp_path, num_chunks):
    whole = climb()
    with pytest.raises(Killed):
        climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"}), on_chunk=kill_after(num_chunks))
    resumed = climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"}))
    np.testing.assert_array_equal(whole.trainable["x"], resumed.trainable["x"])
    np.testing.assert_array_equal(whole.history, resumed.history)


def test_a_finished_ascent_is_read_back_without_training(tmp_path):
    first = climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"}))
    chunks = []
    again = climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"}), on_chunk=lambda *chunk: chunks.append(chunk))
    assert chunks == []
    np.testing.assert_array_equal(first.trainable["x"], again.trainable["x"])


def test_a_checkpoint_of_another_problem_is_refused(tmp_path):
    climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"}))
    with pytest.raises(StorageError, match="What differs: seed"):
        climb(checkpoint=Checkpoint(tmp_path, {"seed": "b"}))


def test_a_damaged_checkpoint_is_named(tmp_path):
    climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"}))
    file = tmp_path / "ascent.npz"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(StorageError, match="cannot be read as a checkpoint"):
        climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"}))


def test_a_failed_write_leaves_the_last_checkpoint_whole(tmp_path, monkeypatch):
    with pytest.raises(Killed):
        climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"}), on_chunk=kill_after(1))

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ascent.np, "savez", full_disk)
        with pytest.raises(StorageError, match=r"No space left on device\. Free some space"):
            climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"}))
    np.testing.assert_array_equal(
        climb(checkpoint=Checkpoint(tmp_path, {"seed": "a"})).trainable["x"], climb().trainable["x"]
    )


def test_ctrl_c_keeps_what_was_found(monkeypatch):
    run_chunk, calls = ascent._run_chunk, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run_chunk(*arguments)

    monkeypatch.setattr(ascent, "_run_chunk", interrupted)
    result = climb()
    assert result.interrupted
    assert result.stop_reason == f"Interrupted after {CHUNK_STEPS} of {NUM_STEPS} steps."
    assert len(result.history) == CHUNK_STEPS


def test_ctrl_c_before_anything_was_found_stays_an_interrupt(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ascent, "_run_chunk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        climb()


def test_nan_at_once_is_an_error_in_words():
    with pytest.raises(AscentError, match="not a finite number at step 0"):
        climb(lambda trainable, key, progress: jnp.sum(trainable["x"]) * jnp.nan)


def test_nan_later_keeps_the_last_finite_chunk():
    def breaks(trainable, key, progress):
        return noisy_bowl(trainable, key, progress) + jnp.where(progress > 0.7, jnp.nan, 0.0)

    result = climb(breaks)
    assert "not a finite number at step 75; kept the design of step 50" in result.stop_reason
    assert np.isfinite(result.trainable["x"]).all()


def test_nothing_is_compiled_after_the_first_chunk():
    climb()
    before = ascent.trace_count
    climb()
    climb(num_steps=NUM_STEPS + 11)
    assert ascent.trace_count == before
