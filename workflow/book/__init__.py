"""Read the sources of the book: its chapters, their parameters, the ledger, fresh seeds."""
