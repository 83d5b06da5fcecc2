"""The page Judge: what is judged, one document after the other, and what has come of it so far."""
