"""Make the pages of the site around the chapters, build it with Jupyter Book, and check it."""
