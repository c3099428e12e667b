"""The workbench: tools around runs. Command line, launcher, records, doctor, demo."""
