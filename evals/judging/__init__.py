"""Relevance judgements: what to judge next, who judged what, how far judges agree, and merging them into labels."""
