"""Run chapters: as notebooks, as plain code, on a cluster, and in libraries with a fault."""
