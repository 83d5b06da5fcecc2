"""Former place of `TuningProcedure`, kept for notebooks that were exported by earlier versions."""

from evals.tuning.tuner import TuningProcedure as Procedure

__all__ = ["Procedure"]
