"""The page that shows runs, its server, and the lab: GRPO worked out in numbers on a bandit."""
