"""What is shown of results, as values: a page, a terminal, a report, a notebook and Jupyter render the same ones.

It must not know Streamlit, and computes nothing but what a chart or a table needs of finished results.
"""
