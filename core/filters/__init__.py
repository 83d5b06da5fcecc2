"""Metadata filters: conditions as data (`spec`), and as SQL over bound values (`sql`)."""

from core.filters.spec import (
    ITEM_ID,
    And,
    Condition,
    Filter,
    Not,
    Or,
    Scalar,
    filter_from,
    filter_of_fields,
    without_items,
)
from core.filters.sql import IdField, JsonField, MetadataField, compiled

__all__ = [
    "ITEM_ID",
    "And",
    "Condition",
    "Filter",
    "IdField",
    "JsonField",
    "MetadataField",
    "Not",
    "Or",
    "Scalar",
    "compiled",
    "filter_from",
    "filter_of_fields",
    "without_items",
]
