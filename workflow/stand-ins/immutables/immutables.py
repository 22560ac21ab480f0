"""The mapping that Snakemake gives its settings as a default, on Pythons for which the package has no wheel."""


class Map(dict):
    """A mapping with a hash, so that a dataclass takes it as a default."""

    __hash__ = object.__hash__
