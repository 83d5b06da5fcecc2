"""From the best hits to the context of an answer: parents, neighbours, a token budget, citations and a trace."""

from core.packing.pack import pack, token_counter
from core.packing.types import Citation, ContextPack, DroppedChunk, PackedChunk, Packing, PackTrace, Role, packing_from
from core.types import TokenCounter

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
