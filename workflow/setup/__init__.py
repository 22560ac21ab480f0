"""Make the environment, and compile what the library compiles."""
