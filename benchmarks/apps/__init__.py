"""Rates of the apps beside their baselines, load balancing, memory and start."""
