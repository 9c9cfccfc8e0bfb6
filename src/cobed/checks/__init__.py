"""Checks of an experiment. `register` adds one; `run_checks` asks all of them, in the order in which people need them."""

from cobed.checks.balance import Balance
from cobed.checks.base import VERDICTS, AbstractCheck, Check, checks, register, run_checks
from cobed.checks.drift import Drift
from cobed.checks.evidence import Actions, Column, Evidence, Targets, Units
from cobed.checks.gains import GainsByGroup
from cobed.checks.law import Law
from cobed.checks.left_out import LeftOut
from cobed.checks.overlap import Overlap
from cobed.checks.predicted import Predicted
from cobed.checks.predictions import MAX_ROWS, Predictions
from cobed.checks.returned import Returned

for _check in (Returned(), Balance(), Overlap(), Drift(), Predicted(), Law(), LeftOut(), GainsByGroup()):
    register(_check)

__all__ = [
    "MAX_ROWS", "VERDICTS", "AbstractCheck", "Actions", "Balance", "Check", "Column", "Drift", "Evidence", "GainsByGroup", "Law",
    "LeftOut", "Overlap", "Predicted", "Predictions", "Returned", "Targets", "Units", "checks", "register", "run_checks",
]  # fmt: skip
