"""Keeps pytest from collecting the corpora, which are no tests of their own."""

collect_ignore_glob = ["cpython_tests.py", "functions*", "models*"]
