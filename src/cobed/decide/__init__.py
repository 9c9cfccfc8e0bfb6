"""Choices from draws of rewards: for `cobed.deploy`, campaigns, plans and metrics alike."""

from cobed.decide.comparison import Comparison, Comparisons, compare
from cobed.decide.engine import INTERVAL, Choices, decide, interval, judge, mean_rewards
from cobed.decide.grow import grow_tree
from cobed.decide.policy import Policy, deploy
from cobed.decide.search import Chooser
from cobed.decide.tree import Tree

__all__ = [
    "INTERVAL", "Choices", "Chooser", "Comparison", "Comparisons", "Policy", "Tree", "compare", "decide", "deploy", "grow_tree",
    "interval", "judge", "mean_rewards",
]  # fmt: skip
