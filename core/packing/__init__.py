"""From the best hits to the context of an answer: parents, neighbours, a token budget, citations and a trace."""

from core.packing.citing import Citation
from core.packing.context import ContextPack, DroppedChunk, PackedChunk, PackTrace, Role
from core.packing.pipeline import pack
from core.packing.rendering import TokenCounter, token_counter
from core.packing.spec import Packing, packing_from

__all__ = [
    "Citation",
    "ContextPack",
    "DroppedChunk",
    "PackTrace",
    "PackedChunk",
    "Packing",
    "Role",
    "TokenCounter",
    "pack",
    "packing_from",
    "token_counter",
]
