"""What a policy is worth, from the outcomes of units whose action was chosen by chance: no model has to be right. NumPy alone."""

from cobed.valuation.estimators import (
    ENOUGH,
    METHODS,
    Logged,
    Worth,
    difference,
    doubly_robust,
    effective,
    inverse_propensity,
)
from cobed.valuation.folds import assign_folds
from cobed.valuation.rounds import EMPHASES, emphasise

__all__ = [
    "EMPHASES", "ENOUGH", "METHODS", "Logged", "Worth", "assign_folds", "difference", "doubly_robust", "effective", "emphasise",
    "inverse_propensity",
]  # fmt: skip
