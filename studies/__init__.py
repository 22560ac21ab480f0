"""Real data and small networks: what the recorded runs are made of, and the chapters on networks."""
