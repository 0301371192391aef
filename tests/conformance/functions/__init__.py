"""The corpus of small notebook functions."""
