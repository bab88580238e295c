"""Reading what a run wrote, wherever it was made: each file of its folder has one reader, here. A run may be a
stranger's, so what no run writes is left out or refused in one message."""
