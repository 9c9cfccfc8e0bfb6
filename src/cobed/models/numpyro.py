"""A NumPyro program as a model: its latent sites are psi, its site `reward` is the mean, its site `y` the outcome.

The program is written for n units at once: `program(contexts (n, C), actions (n, A))`. NumPyro itself is imported when
a program is first run.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.errors import ModelError
from cobed.models.base import AbstractLikelihoodModel, require_count, require_space
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float, Key

# Only a name the user did not choose may be missing: the mean of the outcome's distribution then takes its place.
DEFAULT_REWARD = "reward"

Sites = Mapping[str, Mapping[str, Any]]


def from_numpyro(
    program: Callable[..., Any],
    actions: AbstractSpace,
    *,
    context_dim: int | None = None,
    reward: str = DEFAULT_REWARD,
    outcome: str = "y",
) -> "NumPyroModel":
    """The model that `program(contexts (n, C), actions (n, A))` describes.

    Its latent sample sites are psi. The deterministic site `reward`, of shape (n,), is E[y | a, c, psi]; without one,
    the mean of the outcome's distribution is. The sample site `outcome`, of shape (n,), is y, independent between units
    given psi. With `context_dim` None the number of context columns is taken from the problem's contexts.
    """
    return NumPyroModel(program=program, action_space=actions, context_dim=context_dim, reward=reward, outcome=outcome)


class NumPyroModel(AbstractLikelihoodModel):
    """A NumPyro program as a model. `params` maps the name of each latent site to its value."""

    program: Callable[..., Any] = eqx.field(static=True)
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)
    reward: str = eqx.field(static=True)
    outcome: str = eqx.field(static=True)

    def __check_init__(self):
        _check_arguments(self.program, self.action_space, self.context_dim)
        if self.context_dim is not None:
            self._check_program(self.context_dim)

    def for_contexts(self, context_dim):
        """The same model for contexts of this many columns, where it is not of another number; the program is checked with them."""
        return self if self.context_dim is not None else dataclasses.replace(self, context_dim=context_dim)

    def sample_prior(self, key):
        return self.sample_prior_of(key, *self._any_unit())

    def sample_prior_of(self, key, contexts, actions):
        """What `sample_prior` gives for the key, in a valid program."""
        sites = self._run(key, None, contexts, actions)
        return {name: jnp.asarray(sites[name]["value"]) for name in self._latents(sites)}

    def log_prior(self, params):
        """log p(psi); minus infinity where a site is outside its support."""
        sites = self._run(jr.key(0), params, *self._any_unit())
        total = jnp.zeros(())
        for name in self._latents(sites):
            distribution, value = sites[name]["fn"], sites[name]["value"]
            inside = jnp.all(distribution.support(value))
            total += jnp.where(inside, jnp.sum(distribution.log_prob(value)), -jnp.inf)
        return total

    def log_volume(self, params):
        """By NumPyro's maps to the supports of the latent sites."""
        from numpyro.distributions import biject_to

        sites = self._run(jr.key(0), params, *self._any_unit())
        total = jnp.zeros(())
        for name in self._latents(sites):
            to_support, value = biject_to(sites[name]["fn"].support), sites[name]["value"]
            total += jnp.sum(to_support.log_abs_det_jacobian(to_support.inv(value), value))
        return total

    def bound_sites(self):
        from numpyro.distributions import biject_to

        sites = self._run(jr.key(0), None, *self._any_unit())
        shapes = {name: jnp.shape(sites[name]["value"]) for name in self._latents(sites)}
        continuous = {name: shape for name, shape in shapes.items() if not sites[name]["fn"].support.is_discrete}
        return [
            name
            for name, shape in continuous.items()
            if biject_to(sites[name]["fn"].support).inverse_shape(shape) != shape
        ]

    def _any_unit(self) -> tuple[Float[Array, "1 C"], Float[Array, "1 A"]]:
        """psi does not depend on who is in the experiment, so any unit will do."""
        if self.context_dim is None:
            raise ModelError(
                "This NumPyro model does not know the number of context columns yet, and its prior may depend on it. "
                "Pass context_dim=... to from_numpyro, or take the model of a Problem, which fills it in."
            )
        return jnp.ones((1, self.context_dim)), self.action_space.sample(jr.key(0))[None]

    def mean_reward(self, params, context, action):
        # The key draws an outcome that nobody reads, and that the compiler removes.
        sites = self._run(jr.key(0), params, context[None], action[None])
        return self._means(sites)[0]

    def sample_outcome(self, key, params, context, action):
        return self.sample_outcomes(key, params, context[None], action[None])[0]

    def sample_outcomes(self, key, params, contexts, actions):
        site = self._run(key, params, contexts, actions)[self.outcome]
        values = jnp.asarray(site["value"], dtype=float)
        # Through a draw that is not reparametrised (a count, the component of a mixture) jax.grad gives a part of the
        # gradient or none. None is better: check_model can see it.
        return values if site["fn"].has_rsample else jax.lax.stop_gradient(values)

    def log_likelihood(self, params, context, action, outcome):
        site = self._run(jr.key(0), params, context[None], action[None])[self.outcome]
        # One unit: () with to_event(1), (1,) in a plate or a plain batch.
        return jnp.sum(site["fn"].log_prob(outcome[None]))

    def conditioned(self, contexts, actions, outcomes):
        from numpyro import handlers

        def observed() -> None:
            handlers.condition(self.program, data={self.outcome: outcomes})(contexts, actions)

        return observed

    def _run(
        self,
        key: Key[Array, ""],
        params: Mapping[str, Array] | None,
        contexts: Float[Array, "n C"],
        actions: Float[Array, "n A"],
    ) -> Sites:
        """All sites of one run, with the latents at `params`, or drawn where that is None. The checks are static."""
        from numpyro import handlers

        def value(site: Mapping[str, Any]) -> Array | None:
            # Samplers report deterministic sites among the draws; those are recomputed.
            if params is None or site["type"] != "sample" or site["name"] == self.outcome or site["is_observed"]:
                return None
            return _value(site, params)

        program = handlers.seed(handlers.substitute(self.program, substitute_fn=value), key)
        sites = handlers.trace(program).get_trace(contexts, actions)
        _check_observed(sites, self.outcome)
        _check_outcome(sites, self.outcome, num_units=contexts.shape[0])
        return sites

    def _latents(self, sites: Sites) -> list[str]:
        return [name for name, site in sites.items() if site["type"] == "sample" and name != self.outcome]

    def _means(self, sites: Sites) -> Float[Array, " n"]:
        shape = sites[self.outcome]["value"].shape
        site = sites.get(self.reward)
        if site is None and self.reward == DEFAULT_REWARD:
            return _mean_of(sites[self.outcome]["fn"], self.outcome)
        if site is None or site["type"] != "deterministic":
            names = [name for name, site in sites.items() if site["type"] == "deterministic"]
            raise ModelError(
                f"The program has no deterministic site {self.reward!r} for the mean reward; it has {names or 'none'}. "
                f"Write numpyro.deterministic({self.reward!r}, mean), or pass reward=... with the name you use."
            )
        if jnp.shape(site["value"]) != shape:
            raise ModelError(
                f"The site {self.reward!r} has shape {jnp.shape(site['value'])} for {shape[0]} unit(s); "
                f"{shape} is expected: one mean reward per unit."
            )
        return jnp.asarray(site["value"], dtype=float)

    def _check_program(self, context_dim: int) -> None:
        """Run the program, abstractly, on one unit and on two: psi must have the same shape whoever is there."""

        def run(contexts: Float[Array, "n C"], actions: Float[Array, "n A"]) -> dict[str, Array]:
            params = self.sample_prior_of(jr.key(0), contexts, actions)
            self._means(self._run(jr.key(0), params, contexts, actions))
            return params

        widths = context_dim, self.action_space.dim
        try:
            one, two = (jax.eval_shape(run, *(jnp.ones((n, width)) for width in widths)) for n in (1, 2))
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"The NumPyro program fails on contexts (n, {widths[0]}) and actions (n, {widths[1]}): "
                f"{error!r}. It is called as program(contexts, actions) and compiled by JAX."
            ) from error
        for name in one.keys() & two.keys():
            if one[name].shape != two[name].shape:
                raise _depends_on_units(name, one[name].shape, two[name].shape)


def _check_arguments(program: Any, actions: Any, context_dim: Any) -> None:
    if not callable(program):
        raise ModelError(f"from_numpyro takes a function program(contexts, actions), got {type(program).__name__}.")
    try:
        hash(program)
    except TypeError as error:
        raise ModelError(
            f"The program is a {type(program).__name__} that cannot be hashed, which compilation needs. "
            "Wrap it in a function: from_numpyro(lambda contexts, actions: program(contexts, actions), ...)."
        ) from error
    require_space(actions)
    if context_dim is not None:
        require_count(context_dim, 1, "context_dim must be the number of context columns, at least 1, or None")


def _check_observed(sites: Sites, outcome: str) -> None:
    observed = [name for name, site in sites.items() if site["type"] == "sample" and site["is_observed"]]
    if outcome in observed:
        raise ModelError(
            f"The program observes its outcome {outcome!r} itself. Leave obs= out, or give it as an argument "
            f"that is None by default: program(contexts, actions, {outcome}=None)."
        )
    if observed:
        raise ModelError(
            f"The program observes or weighs the sites {observed}, which draws from the prior would ignore. "
            "Fit those data first and write the posterior into the priors of the program."
        )


def _check_outcome(sites: Sites, outcome: str, num_units: int) -> None:
    if outcome not in sites or sites[outcome]["type"] != "sample":
        names = [name for name, site in sites.items() if site["type"] == "sample"]
        raise ModelError(
            f"The program has no sample site {outcome!r} for the outcome; its sample sites are {names or 'none'}. "
            f"Write numpyro.sample({outcome!r}, ...), or pass outcome=... with the name you use."
        )
    site = sites[outcome]
    if site["value"].shape != (num_units,):
        raise ModelError(
            f"The site {outcome!r} has shape {site['value'].shape} for {num_units} unit(s); {(num_units,)} is "
            "expected, one outcome per unit. Check that the mean of its distribution has one entry per row of the contexts."
        )
    if site["scale"] is not None:
        raise ModelError(
            f"The site {outcome!r} is subsampled or scaled, so its likelihood is not a model of the data. Remove it."
        )
    if _unwrap(site["fn"]).event_dim > 0:
        raise ModelError(
            f"The units share one {type(_unwrap(site['fn'])).__name__} at the site {outcome!r}. Outcomes must be "
            "independent between units given psi: put what they share into a latent site."
        )


def _value(latent: Mapping[str, Any], params: Mapping[str, Array]) -> Array:
    """The value of a latent site in `params`, which must have the shape the program would draw."""
    name = latent["name"]
    if name not in params:
        raise ModelError(
            f"params has no value for the latent site {name!r}; it has {sorted(params)}. "
            "Take draws of sample_prior, or of a sampler run on `conditioned`."
        )
    shape = latent["fn"].shape(latent["kwargs"].get("sample_shape", ()))
    if jnp.shape(params[name]) != shape:
        raise _depends_on_units(name, jnp.shape(params[name]), shape)
    return params[name]


def _depends_on_units(name: str, one: tuple[int, ...], other: tuple[int, ...]) -> ModelError:
    return ModelError(
        f"The latent site {name!r} has shape {one} for some units and {other} for others. psi must have the same shape "
        "whoever is in the experiment. Put an effect of each unit into the noise of the outcome, an effect of a group "
        "into a plate of fixed size, indexed by a context column."
    )


def _unwrap(distribution: Any) -> Any:
    """The distribution under to_event, expand and mask."""
    from numpyro.distributions import ExpandedDistribution, Independent, MaskedDistribution

    while isinstance(distribution, ExpandedDistribution | Independent | MaskedDistribution):
        distribution = distribution.base_dist
    return distribution


def _mean_of(distribution: Any, outcome: str) -> Float[Array, " n"]:
    try:
        return jnp.broadcast_to(jnp.asarray(distribution.mean, dtype=float), distribution.shape())
    except NotImplementedError as error:
        raise ModelError(
            f"The program has no deterministic site {DEFAULT_REWARD!r}, and the distribution of {outcome!r}, a "
            f"{type(_unwrap(distribution)).__name__}, has no mean in closed form. "
            f"Write numpyro.deterministic({DEFAULT_REWARD!r}, mean) with the mean reward of each unit."
        ) from error
