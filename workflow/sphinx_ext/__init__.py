"""Extensions of Sphinx that give the pages of chapters their layout and their figures."""
