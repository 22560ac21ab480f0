"""Run chapters: as notebooks, many at a time, and with a mutant of the library."""
