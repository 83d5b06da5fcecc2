"""How sure one can be: intervals, tests, corrections, comparisons; numbers over scores, and words for them."""
