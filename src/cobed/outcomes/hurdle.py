"""Amounts with many zeros in two parts: whether there is any, and how much where there is.

What decides whether may differ from what decides how much, so that each part has a predictor of its own (`models/two_part.py`):
binary outcomes, and gamma amounts. When an experiment is designed one predictor stands for both, with Tweedie's law.
"""

from __future__ import annotations

from cobed.outcomes.tweedie import Tweedie


class Hurdle(Tweedie):
    name = "hurdle"
    describes = "amounts with many zeros, where what decides whether there is any differs from what decides how much"
    allowed = "Allowed: 0 and numbers above, because the likelihood is hurdle."
    parts = ("bernoulli", "gamma")
