"""Expansions as plain data and back: `{"method": "feedback", "terms": 10}`. Knows no expansion by name."""

from core.expansion.base import expansions
from core.specs import Tagged

EXPANSIONS = Tagged(expansions, "method")
expansion_from, spec_of = EXPANSIONS.read, EXPANSIONS.write
