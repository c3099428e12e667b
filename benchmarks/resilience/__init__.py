"""What checks and checkpoints cost, and which mistakes they notice."""
