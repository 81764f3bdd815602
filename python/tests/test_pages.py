# python/tests/test_pages.py -- the blocks of docs/python.md marked `python run` print the `text output` block behind them.
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["LUMINAL_SOURCE"])


class Pages(unittest.TestCase):
    def test_blocks(self):
        text = (SOURCE / "docs/python.md").read_text()
        blocks = re.findall(r"```python run\n(.*?)```\n\n```text output\n(.*?)```", text, re.S)
        self.assertEqual(len(blocks), text.count("```python run"))
        self.assertGreater(len(blocks), 1)
        for program, output in blocks:
            done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, output), done.stderr)

    def test_names(self):
        import luminal as pl

        for name in re.findall(r"`pl\.(\w+)", (SOURCE / "docs/python.md").read_text()):
            self.assertTrue(hasattr(pl, name), name)


if __name__ == "__main__":
    unittest.main()
