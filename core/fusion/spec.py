"""Fusions as plain data and back: `{"method": "rrf", "k": 60}`. Knows no fusion by name."""

from core.fusion.base import fusions
from core.specs import Tagged

FUSIONS = Tagged(fusions, "method")
fusion_from, spec_of = FUSIONS.read, FUSIONS.write
