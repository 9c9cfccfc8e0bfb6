"""Folds: each unit is judged by what was learned without it."""

from collections.abc import Sequence

import numpy as np


def assign_folds(units: Sequence[str], num_folds: int, seed: int) -> np.ndarray:
    """The fold of each row (N,), equally large up to one unit. Rows of one unit are in one fold."""
    names, place = np.unique(np.asarray(units, object).astype(str), return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    return (order % num_folds)[place.ravel()]
