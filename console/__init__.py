"""What a person reads: faults, and lines on a terminal."""
