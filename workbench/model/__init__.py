"""The performance model: what this machine cannot run is predicted from costs and counts.

See docs/model.md for the formulas. `machine` holds the costs, `formula` multiplies them by what
`miniapps.loads` counts, `fitting` corrects them by a campaign and leaves cells out.
"""
