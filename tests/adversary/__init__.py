"""A second implementation that shares no code with the package, and attacks what the package says."""
