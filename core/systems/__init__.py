"""Published retrieval systems by their own names: their options in, their result types out. No pipeline of their own.

Each module translates its options into a variant, starting from the preset, and the pipeline's result into its own.
"""
