"""A variant as one SQL statement, with the same ranking as the pipeline's. What SQL cannot say is listed."""

from core.sql_export.export import Exported, export, index_names
from core.sql_export.parameters import Parameter
from core.sql_export.running import Explained, explained, run, vector_of

__all__ = ["Explained", "Exported", "Parameter", "explained", "export", "index_names", "run", "vector_of"]
