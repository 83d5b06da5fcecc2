"""Notebooks: Markdown files whose fenced cells run. The document, its cells, runs, exports; Streamlit is not known."""
