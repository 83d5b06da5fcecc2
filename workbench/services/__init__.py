"""One function a use case: what pages, cells and commands call. Knows neither Streamlit nor Typer."""
