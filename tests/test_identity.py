"""A hash of what a value is made of sees every change that changes numbers, and nothing else."""

import functools
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.identity import differences, digest, parts_of


def compiled(source, **names):
    """The function `f` of a source text, with these globals, as a module of the user would have it."""
    space = {"__name__": "users_module", "jnp": jnp, "np": np, **names}
    exec(compile(source, "users_module.py", "exec"), space)
    return space["f"]


F = "def f(x):\n    return rate * x + 1\n"


def adder(amount):
    return lambda x: x + amount


class Rates:
    table = (1, 2)

    def __init__(self, rate):
        self.rate = rate

    def reward(self, x):
        return self.rate * x


class Edited:
    table = (1, 2)

    def __init__(self, rate):
        self.rate = rate

    def reward(self, x):
        return self.rate * x * 2


Edited.__qualname__ = "Rates"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (compiled(F, rate=1), compiled(F, rate=2)),
        (compiled(F, rate=1), compiled(F, rate=1.0)),
        (compiled(F, rate=np.ones(2)), compiled(F, rate=np.ones(3))),
        (compiled(F, rate=np.ones(2)), compiled(F, rate=np.ones(2, np.float32))),
        (compiled(F, rate=1), compiled(F.replace("+ 1", "+ 2"), rate=1)),
        (compiled(F, rate=1), compiled(F.replace("+", "-"), rate=1)),
        (compiled(F.replace("rate", "jnp.sin")), compiled(F.replace("rate", "jnp.cos"))),
        (compiled(F.replace("(x)", "(x, k=1)"), rate=1), compiled(F.replace("(x)", "(x, k=2)"), rate=1)),
        (compiled(F.replace("(x)", "(x, *, k=1)"), rate=1), compiled(F.replace("(x)", "(x, *, k=2)"), rate=1)),
        (compiled(F, rate=compiled(F, rate=1)), compiled(F, rate=compiled(F, rate=2))),
        (adder(1), adder(2)),
        (adder(adder(1)), adder(adder(2))),
        (functools.partial(adder(1), 1), functools.partial(adder(1), 2)),
        (functools.partial(adder(1), x=1), functools.partial(adder(1), x=2)),
        (jax.jit(adder(1)), jax.jit(adder(2))),
        (eqx.filter_jit(adder(1)), eqx.filter_jit(adder(2))),
        (jax.vmap(adder(1)), jax.vmap(adder(2))),
        (functools.lru_cache(adder(1)), functools.lru_cache(adder(2))),
        (Rates(1), Rates(2)),
        (Rates(1).reward, Rates(2).reward),
        (Rates(1), Edited(1)),
        (Rates(1).reward, Edited(1).reward),
        (jr.key(1), jr.key(2)),
        (jnp.zeros(2), -jnp.zeros(2)),
        ({"a": 1}, {"a": 2}),
        (["ab", "c"], ["a", "bc"]),
        ([1, 2], (1, 2)),
        (np.random.default_rng(1), np.random.default_rng(2)),
    ],
)
def test_a_change_that_changes_numbers_is_seen(one, other):
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (compiled(F, rate=1), compiled("# a comment\n\n\n" + F, rate=1)),
        (compiled(F, rate=1), compiled(F, rate=1, unused=3)),
        (compiled(F.replace(":\n", ":\n    'Doc.'\n"), rate=1), compiled(F.replace(":\n", ":\n    'Docs.'\n"), rate=1)),
        (jax.jit(adder(1)), jax.jit(adder(1))),
        (Rates(1).reward, Rates(1).reward),
        (adder(np.ones(3)), adder(np.ones(3))),
        (frozenset("abc"), frozenset("cba")),
    ],
)  # fmt: skip
def test_what_changes_no_number_is_not_seen(one, other):
    assert digest(one) == digest(other)


def test_calling_a_compiled_function_does_not_change_what_it_is():
    function = jax.jit(adder(np.ones(3)))
    before = digest(function)
    function(1.0)
    assert digest(function) == before


def test_a_function_of_a_users_module_counts_by_what_is_used_of_it():
    def module(rate, other):
        found = types.ModuleType("users_helpers")
        found.reward, found.other = compiled(F, rate=rate), other
        return found

    source = F.replace("rate * x", "helpers.reward(x)")
    first, unused, changed = (compiled(source, helpers=module(*made)) for made in ((1, 1), (1, 2), (2, 1)))
    assert digest(first) == digest(unused) != digest(changed)


def recursive(n):
    return n * recursive(n - 1) if n else other_of_circle(n)


def other_of_circle(n):
    return recursive(n)


def test_circles_end():
    items: list = [1]
    items.append(items)
    assert digest(items) == digest(items)
    assert digest(recursive) != digest(other_of_circle)


def test_differences_are_told_by_part():
    before = parts_of(model=eqx.nn.Identity(), seed=1, function=adder(1))
    now = parts_of(model=eqx.nn.Identity(), seed=2, function=adder(2), rule=None)
    assert differences(before, now) == ["seed (1, now 2)", "function (function '<lambda>')", "rule (None)"]
    assert differences({**before, "versions": "cobed 1"}, before)[0].startswith("versions (cobed 1, now cobed")
