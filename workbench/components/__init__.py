"""What several pages draw with Streamlit: results, tables, forms, job progress, errors. Scripts and styles are in
assets."""
