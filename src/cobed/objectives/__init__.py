"""What a design climbs: functions of a design, and perhaps a network. `register` adds one; the order is that of `auto`."""

from cobed.objectives.base import AbstractObjective, FixedDesign, HasGains, Trainable, value_at
from cobed.objectives.choice import Choice, choose_objective
from cobed.objectives.density import (
    BarberAgakov,
    BarberAgakovKind,
    Components,
    LinearGaussianInformation,
    LinearGaussianKind,
    by_second_moments,
)
from cobed.objectives.infonce import InfoNCE, InfoNCEKind
from cobed.objectives.kinds import AbstractKind, Task, register
from cobed.objectives.simulation import (
    About,
    AbstractSimulated,
    Batch,
    Simulation,
    draw_max_values,
    make_simulation,
    outcome_scale,
    value_scale,
)
from cobed.objectives.value import (
    Decisions,
    DecisionValue,
    ExperimentValue,
    MomentValue,
    Predictor,
    PredictorValue,
    ValueKind,
)

for _kind in (ValueKind(), BarberAgakovKind(), LinearGaussianKind(), InfoNCEKind()):
    register(_kind)

__all__ = [
    "About",
    "AbstractKind",
    "AbstractObjective",
    "AbstractSimulated",
    "BarberAgakov",
    "Batch",
    "Choice",
    "Components",
    "DecisionValue",
    "Decisions",
    "ExperimentValue",
    "FixedDesign",
    "HasGains",
    "InfoNCE",
    "LinearGaussianInformation",
    "MomentValue",
    "Predictor",
    "PredictorValue",
    "Simulation",
    "Task",
    "Trainable",
    "by_second_moments",
    "choose_objective",
    "draw_max_values",
    "make_simulation",
    "outcome_scale",
    "register",
    "value_at",
    "value_scale",
]
