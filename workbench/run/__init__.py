"""``miniapps run``: options, launching, monitoring, records and files of one run."""
