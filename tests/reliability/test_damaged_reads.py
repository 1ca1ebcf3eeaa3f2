"""Each file that a command reads is damaged once: cut, emptied, exchanged, a bit of it flipped.

What a command reads are the files that it opens in a run on whole ones. With a damaged one it says
one sentence, status 2, and leaves nothing behind; or it makes the result of the whole file, byte
for byte. A file in ``SEALED`` has a checksum, of its own or in another file, and must end in one of
these two. Any other one is the user's own text or weights, where another letter is another input:
then the result may be another too, and its record has the digest of what was read.

So many damages of each command are drawn as EVENPRUNE_FAULTS says (default: 2), half of them
flipped bits; ``all`` takes each file in each way, with one bit in each kilobyte.
"""

import json
import os
import random
import shutil
import sys

import pytest
from both import main
from folders import snapshot
from gguf import GGMLQuantizationType
from pruning_models import prune_command
from test_gguf import write_gguf

from evenprune.io.checksums import sealed
from evenprune.io.files import sha256_file, write_json
from evenprune.models.identity import files_digest, tokenizer_digest

from .scenes import CPU, Scene, evaluation, inside, pruning, reporting
from .test_attacks import Stage, in_memory
from .test_fault_injection import draw, fetching

POINTS = os.environ.get("EVENPRUNE_FAULTS", "2")
SEALED = {  # of each command
    "prune": (), "evaluate stereoset": (), "own questions": (), "build-calibration": (), "GGUF": (),
    "prune, resumed": ("out-work/*/*/*",),
    "prune, calibration": ("in/calibration/*",),
    "prune, source": ("in/source.json", "in/base/*"),
    "check": ("in/base/*", "in/pruned/*"),
    "evaluate, resumed": ("out/partial.jsonl",),
    "compare": ("in/*/*", "in/*/*/*"),
    "compare models": ("in/pruned/*",),
    "compare models, again": ("in/pruned/*", "evals/*/*/*"),
    "GGUF, again": ("cache/sources/models/*/*",),
    "collect-results": ("in/run/**/*",),
    "make-tables": ("in/*", "in/run/**/*"),
}  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200 if POINTS == "2" else 0)]

opened: set[str] = set()


def note_open(event, arguments):
    if event == "open" and isinstance(arguments[0], str | bytes):
        opened.add(os.path.abspath(os.fsdecode(arguments[0])))


sys.addaudithook(note_open)


def played(scene, name, argv=None):
    """A scene that goes on where another one has ended: its results are there."""
    root = shutil.copytree(scene.root, scene.root.with_name(name))
    with inside(root):
        assert main(argv or scene.argv) == 0
    return root


def further(made, found):
    """What is only read here: a built calibration, sources, kept results of models."""
    built = played(found["build-calibration"], "built")
    (built / "out").rename(built / "in/calibration")
    pairs = "../in/calibration/pairs.jsonl"
    argv = prune_command("../in/base", "../out", pairs, method="sparsegpt")
    yield Scene("prune, calibration", built, argv, ("out",), {})
    entry = ["--entry", json.dumps({"path": "../in/base"}), "--out", "../in/source.json"]
    words = ["fetch-source", "--kind", "models", "--name", "m", *entry]
    argv = prune_command("../in/source.json", "../out", method="magnitude")
    source = played(found["prune"], "source", words)
    yield Scene("prune, source", source, argv, ("out",), {})
    models = made / "models"
    shutil.copytree(made / "evaluate/in/base", models / "in/base")
    shutil.copytree(made / "evaluate/in/data/stereoset", models / "in/data")
    with inside(models):
        assert main(prune_command("../in/base", "../in/pruned", method="magnitude")) == 0
    argv = ["compare", "../in/base", "../in/pruned", "--benchmark", "stereoset", *CPU]
    argv += ["--data", "../in/data", "--out", "../out", "--evals", "../evals"]
    one = Scene("compare models", models, argv, ("out", "evals"), {})
    again = Scene("compare models, again", played(one, "again"), argv, ("out", "evals"), {})
    shutil.rmtree(again.root / "out")
    yield from (one, again)
    one = next(fetching(made))
    one.outputs = ("out.json", "cache")
    yield one
    root = played(one, "kept")
    (root / "out.json").unlink()
    yield Scene("GGUF, again", root, one.argv, one.outputs, {})
    tables = found["make-tables"]
    write_json(tables.root / "in/items.json", sealed({"sets": [], "seed": 0}))
    tables.argv += ["--items", "../in/items.json"]


def all_scenes(made):
    found = {one.name: one for part in (pruning, evaluation, reporting) for one in part(made)}
    found |= {one.name: one for one in further(made, found)}
    write_gguf(made / "spare/other.gguf", GGMLQuantizationType.Q8_0)
    return [found[name] for name in SEALED]


class Reads(Stage):
    """The commands, each with the files that it reads."""

    def __init__(self, root):
        self.read = {}
        super().__init__(root, all_scenes(root / "made"))

    def lay_out(self, scene):
        folder = super().lay_out(scene)
        opened.clear()
        return folder

    def reference(self, scene):
        folder = super().reference(scene)
        whole = [p for p in scene.root.rglob("*") if p.is_file() and p.stat().st_size]
        names = sorted(path.relative_to(scene.root) for path in whole)
        self.read[scene.name] = [name for name in names if str(folder / name) in opened]
        return folder

    def points(self, scene):
        """The damages to play: (file, way), where a number is the kilobyte whose bit is flipped."""
        files = [(name, scene.root / name) for name in self.read[scene.name]]
        whole = [(name, way) for name, _ in files for way in ("cut", "empty", "exchanged")]
        bits = [(n, k) for n, path in files for k in range(-(-path.stat().st_size // 1024))]
        half = POINTS if POINTS == "all" else -(-int(POINTS) // 2)
        return [one for part in (whole, bits) for one in draw(part, scene.name, half)]

    def damaged(self, scene, name, way):
        """The bytes of a file after a damage; another one of its kind has its name, or its end."""
        raw = (scene.root / name).read_bytes()
        if way == "cut":
            return raw[: len(raw) // 3]
        if way == "empty":
            return b""
        if way == "exchanged":
            others = [path for path in self.root.glob("made/**/*") if path.is_file()]
            others.sort(key=lambda p: (p.name != name.name, p.suffix != name.suffix, str(p)))
            return next(other for p in others if (other := p.read_bytes()) not in (raw, b""))
        drawn = random.Random(f"{scene.name} {name} {way}")
        at = drawn.randrange(1024 * way, min(1024 * (way + 1), len(raw)))
        return raw[:at] + bytes([raw[at] ^ 1 << drawn.randrange(8)]) + raw[at + 1 :]

    def damage(self, scene, name, way):
        """Play one damage and return what broke the rule, "" where nothing did."""
        folder = self.lay_out(scene)
        (folder / name).write_bytes(self.damaged(scene, name, way))
        sealed = any((folder / name) in folder.glob(one) for one in SEALED[scene.name])
        outcome, wrong = self.judged(scene, folder, sealed)
        if not wrong and outcome.status == 0 and not self.told(scene, folder, name):
            wrong = "another result, whose record does not tell"
        shutil.rmtree(folder.parent)
        return f"{scene.name}, {name}, {way}: {wrong}" if wrong else ""

    def told(self, scene, folder, name):
        """Whether the result is as ever, or has a digest: of the file, its model or tokenizer."""
        found = self.output(scene, snapshot(folder))
        if found == self.good[scene.name]:
            return True
        beside = [path for path in (folder / name).parent.iterdir() if path.is_file()]
        digests = [sha256_file(folder / name), tokenizer_digest((folder / name).parent)]
        digests += [files_digest({path.name: sha256_file(path) for path in beside})]
        return any(one in str(found) for one in digests)


@pytest.fixture(scope="module")
def reads(tmp_path_factory):
    with in_memory(tmp_path_factory.mktemp("reads")) as root, pytest.MonkeyPatch.context() as set_:
        set_.setenv("EVENPRUNE_CACHE", "../cache")  # in each case's own folder
        yield Reads(root)


@pytest.mark.parametrize("name", SEALED)
def test_a_damaged_file_is_refused_or_makes_no_difference(reads, name):
    scene = next(one for one in reads.scenes if one.name == name)
    points = reads.points(scene)
    print(f"{name}: {len(reads.read[name])} files, {len(points)} damages")
    failures = [wrong for file, way in points if (wrong := reads.damage(scene, file, way))]
    assert not failures, "\n".join(failures)
