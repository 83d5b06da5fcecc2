"""Makes one ranking of several. Importing this registers every fusion; a new one is a file here and a line below."""

from core.fusion.base import FusedHit, Fusion, LegRanking, WeightedFusion, fusion_from, fusions, spec_of
from core.fusion.rank_based import IsrFusion, RbcFusion, RrfFusion
from core.fusion.score_based import CombAnzFusion, CombMedFusion, CombMnzFusion, CombSumFusion, LinearFusion
from core.fusion.voting import BordaFusion, CondorcetFusion

__all__ = [
    "BordaFusion",
    "CombAnzFusion",
    "CombMedFusion",
    "CombMnzFusion",
    "CombSumFusion",
    "CondorcetFusion",
    "FusedHit",
    "Fusion",
    "IsrFusion",
    "LegRanking",
    "LinearFusion",
    "RbcFusion",
    "RrfFusion",
    "WeightedFusion",
    "fusion_from",
    "fusions",
    "spec_of",
]
