"""Searches for an order of events in which a program gives another result.

``trial``: one run in one order; ``search``: many orders; ``shrink``: the smallest schedule that
still fails; ``locate``: the first message, block and step that differ; ``command``: the command.
"""
