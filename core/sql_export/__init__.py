"""A variant as one SQL statement, with the same ranking as the pipeline's. What SQL cannot say is listed."""

from core.sql_export.export import Explained, ExportedSql, explained, export_sql, index_names, run, vector_of
from core.sql_export.parameters import Parameter

__all__ = ["Explained", "ExportedSql", "Parameter", "explained", "export_sql", "index_names", "run", "vector_of"]
