"""Workers without torch."""

import subprocess
import sys

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "diffusers", "gateway"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocker())
import workers, workers.cli
workers.create_app(workers.FakeEngine().info, workers.FakeEngine)
assert workers.__all__ == sorted(workers.__all__)
assert all(hasattr(workers, name) for name in workers.__all__)
print("imported")
"""


def test_the_fake_needs_no_torch():
    """The package, its command line and an application with the fake work without torch."""
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True)
    assert done.stdout == "imported\n", done.stderr
