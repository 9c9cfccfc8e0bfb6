"""What the ascent climbs: functions of a design, and perhaps a network, estimated from simulated experiments."""

from cobed.objectives.base import (
    AbstractObjective,
    AbstractSimulated,
    Batch,
    FixedDesign,
    Simulation,
    Trainable,
    draw_max_values,
    outcome_scale,
    value_at,
    value_scale,
)
from cobed.objectives.decision import Decisions, DecisionValue
from cobed.objectives.density import BarberAgakov, Components, LinearGaussianInformation, by_second_moments
from cobed.objectives.infonce import InfoNCE
from cobed.objectives.moments import MomentValue
from cobed.objectives.predictor import HasGains, PredictorValue
from cobed.objectives.value import ExperimentValue

__all__ = [
    "AbstractObjective",
    "AbstractSimulated",
    "BarberAgakov",
    "Batch",
    "Components",
    "DecisionValue",
    "Decisions",
    "ExperimentValue",
    "FixedDesign",
    "HasGains",
    "InfoNCE",
    "LinearGaussianInformation",
    "MomentValue",
    "PredictorValue",
    "Simulation",
    "Trainable",
    "by_second_moments",
    "draw_max_values",
    "outcome_scale",
    "value_at",
    "value_scale",
]
