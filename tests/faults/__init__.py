"""Faults, injected for real into runs of the tiny recipe, a file for each group of them."""
