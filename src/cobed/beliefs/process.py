"""Psi is a function: a Gaussian process given what has been observed of it."""

from typing import Any

from cobed.beliefs.base import AbstractBelief


class Process(AbstractBelief):
    """`known` is the `cobed.models.GaussianProcess` that holds all observations; a draw of psi is one of its functions."""

    known: Any

    def sample(self, key):
        return self.known.sample_prior(key)

    def process(self):
        return self.known
