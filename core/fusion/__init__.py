"""Makes one ranking of several. Importing this registers every fusion; a new one is a file here and a line below."""

from core.fusion.base import Fused, Fusion, LegRanking, Weighted, fusions
from core.fusion.borda import BordaFusion
from core.fusion.combanz import CombAnzFusion
from core.fusion.combmed import CombMedFusion
from core.fusion.combmnz import CombMnzFusion
from core.fusion.combsum import CombSumFusion
from core.fusion.condorcet import CondorcetFusion
from core.fusion.isr import IsrFusion
from core.fusion.linear import LinearFusion
from core.fusion.rbc import RbcFusion
from core.fusion.rrf import RrfFusion
from core.fusion.spec import fusion_from, spec_of

__all__ = [
    "BordaFusion",
    "CombAnzFusion",
    "CombMedFusion",
    "CombMnzFusion",
    "CombSumFusion",
    "CondorcetFusion",
    "Fused",
    "Fusion",
    "IsrFusion",
    "LegRanking",
    "LinearFusion",
    "RbcFusion",
    "RrfFusion",
    "Weighted",
    "fusion_from",
    "fusions",
    "spec_of",
]
