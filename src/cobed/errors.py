"""The errors a user can meet. Each says what was given, what is allowed, and what to do."""


class CobedError(Exception):
    """Base of every error raised on purpose by cobed."""


class SpaceError(CobedError):
    """An action space, or an action in it, that makes no sense."""


class ProblemError(CobedError):
    """Contexts, targets or data that do not fit together or do not fit the model."""


class ModelError(CobedError):
    """A model that breaks the contract of `cobed.models.AbstractModel`."""


class BudgetError(CobedError):
    """A budget that is unknown, impossible, or too large for this machine."""


class AscentError(CobedError):
    """Training that could not produce a design."""


class StorageError(CobedError):
    """A file that is missing, of another version, or not what it claims to be."""


class NoDensityError(ModelError):
    """A model whose best rewards have no density, so that their entropy means nothing."""


class SpecError(CobedError):
    """A campaign.toml that cannot be used; each message names the file, the key, the value and what is allowed."""


class TableError(CobedError):
    """A table that cannot be used; each message names the file, the row, the column, the value and what is allowed."""


class CampaignError(CobedError):
    """Something asked of a campaign that it cannot do now, or constraints that no assignment can satisfy."""


class CompilerError(CobedError):
    """A version of jaxlib whose programs compute wrong numbers; the message says how to get another."""
