"""What the documents and the packaging say is so: commands, paths, versions; and nothing in the tree tells of one machine."""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import lanewise
from lanewise.cli import COMMANDS, cli

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
READMES = ("README.md", "README.ja.md")
DOCUMENTS = (
    *READMES,
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/README.md",
    "examples/README.md",
    "benchmarks/README.md",
)


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pyproject() -> dict[str, Any]:
    return tomllib.loads(text_of("pyproject.toml"))


def tracked() -> list[Path]:
    """Files that are in the repository; those of the folder where it is not a git one."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git repository")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


# ---- commands
def commands_in(name: str) -> Iterator[str]:
    """Commands of a document: lines of sh blocks, and code in back quotes."""
    text = text_of(name)
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield from (line.split(" #")[0].strip() for line in block.splitlines() if line.strip())
    for block in re.findall(r"^ {4}(make .*)$", text, re.MULTILINE):
        yield block.split(" #")[0].strip()
    yield from re.findall(r"`((?:lanewise|make) [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    yield from re.findall(r"<!-- output: (lanewise [^\n]*?), \d+ lines -->", text)


ALL_COMMANDS = sorted({(name, command) for name in DOCUMENTS for command in commands_in(name)})


def test_documents_name_commands() -> None:
    assert len(ALL_COMMANDS) > 20
    for name in READMES:
        assert {"make demo", "make test"} <= {c for n, c in ALL_COMMANDS if n == name}


@pytest.mark.parametrize(("name", "command"), [c for c in ALL_COMMANDS if c[1].startswith("make ")])
def test_make_targets_exist(name: str, command: str) -> None:
    words = [w for w in shlex.split(command)[1:] if "=" not in w]
    targets = re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE)
    assert set(words) <= set(targets)


@pytest.mark.parametrize(("name", "command"), [c for c in ALL_COMMANDS if c[1].startswith("lanewise ")])
def test_commands_and_options_exist(name: str, command: str) -> None:
    words = shlex.split(command)[1:]
    if words[0] == "--help":
        return
    assert words[0] in [c for c, _, _ in COMMANDS]
    context = click.Context(cli)
    found = cli.get_command(context, words[0])
    assert found is not None
    known = {option for parameter in found.params for option in parameter.opts} | {"--help"}
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    assert {w.split("=")[0] for w in own if w.startswith("-") and w != "-"} <= known


def test_readme_names_every_command() -> None:
    for name in READMES:
        assert {c.split()[1] for n, c in ALL_COMMANDS if n == name and c.startswith("lanewise ")} == {c for c, _, _ in COMMANDS}


def test_index_of_docs_is_whole() -> None:
    docs = ROOT / "docs"
    pages = {p.name for p in docs.glob("*.md")} | {f"{p.parent.name}/README.md" for p in docs.glob("*/README.md")}
    assert pages - {"README.md"} <= set(re.findall(r"\]\(([\w/-]+\.md)\)", text_of("docs/README.md")))


def test_files_named_in_commands_exist() -> None:
    named = {w for _, c in ALL_COMMANDS for w in c.split() if w.startswith(("examples/", "benchmarks/", "scripts/"))}
    assert named
    assert [n for n in named if not (ROOT / n).exists()] == []


def test_makefile_names_files_that_exist() -> None:
    named = re.findall(r"\b(?:examples|benchmarks|scripts)/[\w./-]+\w", text_of("Makefile"))
    assert len(named) >= 4
    assert [n for n in named if not (ROOT / n).exists()] == []


def test_japanese_readme_says_the_same() -> None:
    english, japanese = (text_of(name) for name in READMES)
    assert english.count("\n## ") == japanese.count("\n## ")
    assert english.count("\n| ") == japanese.count("\n| ")
    assert english.count("\n- ") == japanese.count("\n- ")
    blocks = [re.findall(r"```(sh|python)\n(.*?)```", text, re.DOTALL) for text in (english, japanese)]
    plain = [[(kind, re.sub(r" *#.*", "", code).replace(', lang="ja"', "")) for kind, code in some] for some in blocks]
    assert plain[0] == plain[1]


@pytest.mark.parametrize("name", READMES)
def test_python_of_the_readme_runs(name: str) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", text_of(name), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "launch-bound" in done.stdout.splitlines()[0]


@pytest.mark.parametrize("name", READMES)
def test_outputs_in_the_readme_are_what_is_printed(name: str) -> None:
    spec = importlib.util.spec_from_file_location("excerpts", ROOT / "scripts" / "excerpts.py")
    assert spec is not None
    assert spec.loader is not None
    excerpts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(excerpts)
    assert text_of(name) == excerpts.with_outputs(text_of(name)), "write it again: make docs"
    assert "```text\n$ lanewise " in text_of(name)


def test_example_script_prints_kernels_per_step() -> None:
    script, trace = "examples/kernels_per_step.py", "examples/mlp.json.gz"
    done = subprocess.run([sys.executable, script, trace], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    # The MLP's three products: one kernel twice a step, another once.
    assert re.search(r"nvjet_sm90_tst_256x128\S*\s*┆ 2\.0", done.stdout)
    assert re.search(r"nvjet_sm90_tst_192x128\S*\s*┆ 1\.0", done.stdout)


# ---- packaging
def test_version_is_one() -> None:
    assert importlib.metadata.version("lanewise") == lanewise.__version__
    assert re.search(rf"^## (Unreleased|{re.escape(lanewise.__version__)}\b)", text_of("CHANGELOG.md"), re.MULTILINE)


def test_reading_needs_no_torch() -> None:
    project = pyproject()["project"]
    names = [re.split(r"[<>=;\[ ]", d)[0] for d in project["dependencies"]]
    assert "torch" not in names
    assert [d for d in project["optional-dependencies"]["dev"] if d.startswith("torch")] == []


def test_what_is_installed_for_development_is_pinned() -> None:
    project = pyproject()["project"]
    wanted = {re.split(r"[<>=;\[ ]", d)[0] for d in [*project["dependencies"], *project["optional-dependencies"]["dev"]]}
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", text_of("constraints-dev.txt"), re.MULTILINE))
    assert wanted <= set(pinned)
    assert pinned["torch"].endswith("+cpu")


def test_architecture_names_every_folder_and_dependency() -> None:
    text = text_of("ARCHITECTURE.md")
    package = ROOT / "src" / "lanewise"
    folders = {p.parent.name for p in package.glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)) == folders
    for named in re.findall(r"`(\w+(?:/\w+)*\.py)`", text):
        assert any((place / named).exists() for place in (ROOT, package, package / "model")) or "/x.py" in named, named
    listed = re.findall(r"^\| (\w+) \| ", text.split("## Dependencies")[1].split("## ")[0], re.MULTILINE)
    assert sorted(listed) == sorted(re.split(r"[<>=;]", d)[0] for d in pyproject()["project"]["dependencies"])


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom lanewise.cli import cli\n"
        "result = CliRunner().invoke(cli, ['--help'])\nassert result.exit_code == 0 and 'explain' in result.output\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'numpy', 'polars', 'rich', 'torch', 'msgspec', 'isal'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- the tree
# Folders of one machine and hosts of package registries, in pieces so that this file does not hold them itself.
_MACHINE = re.compile(rb"(?<![\w.])/(?:wo[r]k|ro[o]t|fa[r]m)/|/ho[m]e/[a-z]|/Use[r]s/[a-z]")
_HOSTS = re.compile(
    rb"pyp[i]\.org|pythonhos[t]ed|npm[j]s\.(?:org|com)|download\.pyto[r]ch|deb\.debi[a]n|conda\.anacond[a]|proxy\.gol[a]ng|crates\.[i]o"
)


def test_nothing_tells_of_a_machine_or_a_registry() -> None:
    found = []
    for path in tracked():
        data = path.read_bytes()
        if path.suffix == ".gz":
            try:
                data = gzip.decompress(data)
            except (OSError, EOFError):  # a trace that is cut on purpose
                continue
        # Traces keep the Python frames of where they were recorded: that is not this machine.
        patterns = (_HOSTS,) if ".json" in path.suffixes else (_MACHINE, _HOSTS)
        found += [f"{path.relative_to(ROOT)}: {m[0]!r}" for p in patterns if (m := p.search(data))]
    assert found == []


def test_examples_are_small_and_described() -> None:
    files = [p for p in (ROOT / "examples").iterdir() if p.suffix not in (".md", ".pyc") and p.is_file()]
    assert sum(p.stat().st_size for p in files) < 3e6
    for path in files:
        assert f"`{path.name}`" in text_of("examples/README.md")
