"""What is kept in it and looked for afterwards, in words that both versions understand."""

from __future__ import annotations

from core.variant import Variant

WORDS = Variant.from_data({"name": "words", "chunks": "small", "top_k": 2, "leg": [{"kind": "bm25"}]})
BOTH = Variant.from_data(
    {"name": "both", "chunks": "small", "top_k": 2, "leg": [{"kind": "bm25"}, {"kind": "vector", "weight": 0.5}]}
)
NOTEBOOK = """# Kettles

```notebook
collection = "kettles"
```

```search words
query = "scale"
variants = ["words"]
```
"""
