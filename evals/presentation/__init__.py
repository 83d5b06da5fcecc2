"""View models of results, and their text, HTML and charts. Pages, terminals, reports, notebooks and Jupyter share them.

It must not know Streamlit, and computes nothing but what a chart or a table needs of finished results.
"""
