# python/tests/test_pages.py -- docs/python.md names only what the module has. (Its blocks are run
# like those of other pages.)
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["LUMINAL_SOURCE"])


class Pages(unittest.TestCase):
    def test_names(self):
        import luminal as pl

        for name in re.findall(r"`pl\.(\w+)", (SOURCE / "docs/python.md").read_text()):
            self.assertTrue(hasattr(pl, name), name)


if __name__ == "__main__":
    unittest.main()
