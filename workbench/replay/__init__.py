"""What another balancer, period, ODF or number of PEs would have done with a run's loads."""
