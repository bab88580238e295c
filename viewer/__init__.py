"""The page that shows what a run did: its data, its server, and the page itself."""
