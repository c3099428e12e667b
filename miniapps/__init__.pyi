from miniapps.drivers.job import RunError as RunError
from miniapps.parameters import InputError as InputError
from miniapps.workbench.api import campaign as campaign
from miniapps.workbench.api import run as run
