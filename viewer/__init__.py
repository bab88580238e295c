"""The page that shows what a run did: its data, and the page itself."""
