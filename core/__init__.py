"""Retrieval on PostgreSQL. Knows nothing of labels, metrics or screens, and imports neither torch nor Streamlit."""
