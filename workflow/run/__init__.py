"""Run chapters: as notebooks, as plain code, side by side, and in libraries with a fault."""
