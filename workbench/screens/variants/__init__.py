"""The page Variants: presets and kept ones, edited as a form or as TOML."""
