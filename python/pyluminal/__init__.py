# python/pyluminal/__init__.py -- the name of the module in the design documents: the same as luminal.
import sys

import luminal

sys.modules[__name__] = luminal
