"""Reading what a run wrote."""
