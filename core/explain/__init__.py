"""Why a document is, or is not, among the results of a query; and what would bring it in, each remedy really tried."""

from core.explain.explain import explain
from core.explain.explanation import (
    Explanation,
    ExplanationLine,
    LegDiagnosis,
    Loss,
    OptionChange,
    Remedy,
    StagePosition,
)

__all__ = [
    "Explanation",
    "ExplanationLine",
    "LegDiagnosis",
    "Loss",
    "OptionChange",
    "Remedy",
    "StagePosition",
    "explain",
]
