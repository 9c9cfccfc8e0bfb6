"""The designer, objective and sampler that a spec names: unknown ones are told when it is read."""

from cobed.campaign.near import nearest
from cobed.registry import Registry

# What stands for the library's own choice, by the kind of part.
DEFAULTS = {"designer": "CO-BED", "objective": "auto", "sampler": "auto"}
# Parts of cobed itself: a spec that names one of them is read without JAX. All others are looked up in their registries.
WITHOUT_JAX = {
    "designer": ("Random", "Thompson", "UCB_1", "UCB+LP", "LEVI", "LEVI+LP", "ITL", "S-P", "Norm", "Const"),
    "objective": ("value", "barber-agakov", "linear-gaussian", "infonce"),
    "sampler": (
        "conjugate",
        "gaussian process",
        "scales",
        "two parts",
        "spike_slab",
        "laplace",
        "importance",
        "smc",
        "nuts",
    ),
}


def check_part(kind: str, name: str) -> str:
    """The name, where there is such a part; `ValueError` with all names where there is none."""
    if name in (DEFAULTS[kind], *WITHOUT_JAX[kind]):
        return name
    names = [DEFAULTS[kind], *registry_of(kind).items()]
    if name not in names:
        raise ValueError(f"there is no {kind} {name!r}.{nearest(name, names)} Allowed: {', '.join(names)}")
    return name


def registry_of(kind: str) -> Registry:
    """All parts of a kind, also of other packages. Loads JAX."""
    from cobed.designers.known import DESIGNERS
    from cobed.inference.choice import SAMPLERS
    from cobed.objectives.kinds import OBJECTIVES

    return {"designer": DESIGNERS, "objective": OBJECTIVES, "sampler": SAMPLERS}[kind]
