"""What a class gets: the zip file for students, and the notebook. Both are made in a source tree.

So this package is in neither the wheel nor the zip file; `README.md` is that of the zip file.
"""
