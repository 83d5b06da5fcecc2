"""The page Weights: the weight surface of a variant."""
