"""Three ways to climb an objective over designs, with one signature: by the gradient, by exchange of single units, and of many."""

from cobed.search.ascent import AscentResult, Checkpoint, ChunkReport, Stage, ascend
from cobed.search.exchange import exchange
from cobed.search.gradient import by_gradient
from cobed.search.ranking import scores
from cobed.search.session import Found, Session, Way
from cobed.search.together import climb_freely, exchange_together

__all__ = [
    "AscentResult", "Checkpoint", "ChunkReport", "Found", "Session", "Stage", "Way", "ascend", "by_gradient", "climb_freely",
    "exchange", "exchange_together", "scores",
]  # fmt: skip
