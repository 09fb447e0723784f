"""What tests of scripts share: a folder, and programs in place of those that a script calls."""
import os
import pathlib
import tempfile
import unittest


class WithPrograms(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def script(self, name, text):
        """A program in a folder of its own, which PATH begins with."""
        path = self.folder / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/usr/bin/env bash\n" + text)
        path.chmod(0o755)
        return f"{path.parent}:{os.environ['PATH']}"
