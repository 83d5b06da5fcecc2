"""A variant as one SQL statement, with the same ranking as the pipeline's. What SQL cannot say is listed."""

from core.sql_export.export import Exported, export
from core.sql_export.parameters import Parameter
from core.sql_export.running import run

__all__ = ["Exported", "Parameter", "export", "run"]
