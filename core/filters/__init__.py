"""Metadata filters: conditions as data (`spec`), and as SQL over bound values (`sql`)."""

from core.filters.spec import And, Condition, Filter, Not, Or, Scalar, filter_from
from core.filters.sql import JsonField, MetadataField, compiled

__all__ = [
    "And",
    "Condition",
    "Filter",
    "JsonField",
    "MetadataField",
    "Not",
    "Or",
    "Scalar",
    "compiled",
    "filter_from",
]
