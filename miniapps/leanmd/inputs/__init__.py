"""Initial atoms from a file: H5MD 1.1, extended XYZ or a LAMMPS data file.

A file holds tables: an id and a vector (a position, a velocity) for each atom, in any order. Each
format has its own code to find tables and to read their rows. Checks of ids and vectors, and the
selection of the atoms in a box, are the same for all formats.

Tables are read some rows at a time, and no process ever holds all atoms. Only the check of a file
holds the ids of all atoms, 8 bytes each per table.

All lengths are in sigma, velocities in sigma / tau. Of files in other units, only LAMMPS data of
one substance are converted, and only if their units are known (`scale`). All errors are InputErrors
that name the file and, in a text file, the line.

Imports run one way: `tables` imports no other module here; `text` and `scale` import `tables`; the
formats `lammps_data`, `extended_xyz` and `h5md` import these, but not each other; `reading` imports
all.
"""

from miniapps.leanmd.inputs.reading import atoms_between, opened
from miniapps.leanmd.inputs.tables import Input
from miniapps.leanmd.inputs.text import MOST_ATOMS

__all__ = ["MOST_ATOMS", "Input", "atoms_between", "opened"]
