"""Make the book: from the sources of its chapters to runs, the ledger, and the site."""
