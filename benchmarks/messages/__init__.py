"""What messages between PEs cost, and the pages that are written about it."""
