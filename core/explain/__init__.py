"""Why a document is, or is not, among the results of a query; and what would bring it in, each remedy really tried."""

from core.explain.account import Account, Change, Loss, Place, Remedy, Standing, Told
from core.explain.explaining import explain

__all__ = ["Account", "Change", "Loss", "Place", "Remedy", "Standing", "Told", "explain"]
