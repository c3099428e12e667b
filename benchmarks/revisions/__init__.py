"""Other revisions of the project, measured beside this one."""
