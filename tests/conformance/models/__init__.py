"""The corpus of tiny public models."""
