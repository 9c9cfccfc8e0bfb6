"""Named actions, one-hot."""

from collections.abc import Iterable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import SpaceError
from cobed.spaces.base import AbstractSpace


class Discrete(AbstractSpace):
    """A finite set of named actions, represented one-hot.

    >>> offers = Discrete(["none", "5%", "10%"])
    >>> offers.dim, offers.label([0, 1, 0])
    (3, '5%')
    """

    names: tuple[str, ...] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, names: Sequence[str] | int):
        """`names` of the actions, or their number (they are then called "1", "2", ...)."""
        if isinstance(names, str):
            raise SpaceError(
                f"Discrete takes a list of action names, not the single string {names!r}. Write Discrete([{names!r}, ...])."
            )
        if isinstance(names, int | np.integer):
            names = [str(i + 1) for i in range(int(names))]
        if not isinstance(names, Iterable):
            raise SpaceError(f"Discrete takes a list of action names, or their number, not {names!r}.")
        names = tuple(str(name) for name in names)
        if len(names) < 2:
            raise SpaceError(
                f"A discrete space needs at least 2 actions, got {len(names)}: with one there is nothing to choose."
            )
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise SpaceError(f"Action names must differ; {repeated} appear more than once.")
        self.names = names
        self.dim = len(names)

    @property
    def continuous(self) -> tuple[int, ...]:
        return ()

    @property
    def options(self) -> tuple[str, ...]:
        return self.names

    def sample(self, key):
        return jax.nn.one_hot(jr.randint(key, (), 0, self.dim), self.dim)

    def project(self, action):
        return jax.nn.one_hot(jnp.argmax(action), self.dim)

    def contains(self, action):
        return jnp.all(jnp.abs(action - self.project(action)) < 1e-6)

    def initial_raw(self, key):
        # Nearly uniform: a confident start would keep the units that happened to begin on poor actions there.
        return 0.1 * jr.normal(key, (self.dim,))

    def relax(self, key, raw, temperature, hard):
        # Gumbel-Softmax: softmax((log alpha + g) / tau), g ~ Gumbel(0, 1)
        soft = jax.nn.softmax((raw + jr.gumbel(key, raw.shape)) / temperature)
        straight_through = soft + jax.lax.stop_gradient(self.project(soft) - soft)
        return jnp.where(hard, straight_through, soft)

    def harden(self, raw):
        return self.project(raw)

    def to_raw(self, action):
        # The other actions keep a chance.
        return 2.0 * self.project(action)

    def enumerate_discrete(self):
        return np.eye(self.dim, dtype=np.float32)

    def discrete_weights(self, action):
        return action

    def search_bounds(self):
        return np.zeros(0), np.zeros(0)

    def labels(self, actions, digits=None):
        return [self.names[option] for option in np.argmax(np.asarray(actions), axis=1)]

    def parse_all(self, values):
        options = {name: option for option, name in enumerate(self.names)}
        for value in values:
            if str(value) not in options:
                raise SpaceError(f"{value!r} is not an action. Allowed: {', '.join(self.names)}.")
        return np.eye(self.dim, dtype=np.float32)[[options[str(value)] for value in values]]
