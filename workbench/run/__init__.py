"""``miniapps run``: options, launching, watching, records and files of one run."""
