"""Where atoms begin, from a file: H5MD 1.1, extended XYZ or a LAMMPS data file.

A file holds tables: an id and a vector (a position, a velocity) for each atom, in any order. Of
each format only how its tables are found, and how rows of them are read, is its own. What is asked
of ids and vectors, and which atoms are in a box of space, is the same for all.

Tables are read some rows at a time, and no process ever holds all atoms: of all of them no more
than their ids, 8 bytes in each table, while a file is checked.

All lengths are in sigma, velocities in sigma / tau. What a file says otherwise is refused, never
converted. All errors are InputErrors that name the file and, where it has lines, the line.

Imports run one way: `tables` knows none of the others; `text` is above it, then the formats
`lammps_data`, `extended_xyz` and `h5md`, which do not know each other; `reading` knows them all.
"""

from miniapps.leanmd.inputs.reading import atoms_between, opened
from miniapps.leanmd.inputs.tables import Input

__all__ = ["Input", "atoms_between", "opened"]
