"""The notebooks of docs/tutorials: run, and made into pages.

``python docs/_build/notebooks.py [name ...]`` runs them and stores what they say, with their pictures. When the
docs are built each becomes a page, from what is stored; nothing runs then.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
WIDTH = 86  # characters of code in a line of a page
PLACE = Path(__file__).resolve().parents[1] / "tutorials"
# A result shows itself by words, a picture and a table to unfold (sublearn.plots.html), which a page leaves out.
SHOWN = re.compile(
    r'<pre>(.*?)</pre><img alt="" src="data:image/png;base64,([^"]*)">(?:<details>.*</details>)?',
    flags=re.DOTALL,
)


def names() -> list[str]:
    """The notebooks there are."""
    return sorted(path.stem for path in PLACE.glob("*.ipynb"))


def load(name: str) -> dict[str, Any]:
    """A notebook as stored."""
    notebook: dict[str, Any] = json.loads((PLACE / f"{name}.ipynb").read_text(encoding="utf-8"))
    return notebook


def run(name: str) -> dict[str, Any]:
    """A notebook as it comes out when every cell is run anew, in a folder of its own."""
    import nbclient
    import nbformat

    notebook = nbformat.read(PLACE / f"{name}.ipynb", as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        for script in PLACE.glob("*.py"):
            shutil.copy(script, folder)
        how = {"resources": {"metadata": {"path": folder}}, "record_timing": False}
        how["coalesce_streams"] = True  # what is printed comes in one piece, however it was sent
        nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", **how).execute()
    # What differs from machine to machine and is of no use to a reader.
    notebook.metadata = {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":  # on stderr: machine code is being compiled
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
    plain: dict[str, Any] = json.loads(nbformat.writes(notebook))
    return plain


def words(cell: dict[str, Any]) -> list[str]:
    """What a cell says, apart from pictures."""
    return [text for text, _ in _outputs(cell) if text]


def page(name: str) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a notebook's page, and its pictures by file name."""
    parts, pictures = [], {}
    for cell in load(name)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        # Not "python": the tests of the pages would run a cell alone.
        parts.append(f"```py\n{source}\n```")
        for text, picture in _outputs(cell):
            if text:
                parts.append(_block(text))
            if picture:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = picture
                parts.append(f"![What the cell shows]({file}){{.shown}}")
    script = " and ".join(f"[{file.name}]({file.name})" for file in _scripts(name))
    files = f"[{name}.ipynb]({name}.ipynb)" + (
        f", which needs {script} beside it" if script else ""
    )
    parts.append(f"This page is a notebook, as it was last run: {files}.")
    return "\n\n".join(parts) + "\n", pictures


def _scripts(name: str) -> list[Path]:
    text = json.dumps(load(name))
    return [path for path in sorted(PLACE.glob("*.py")) if path.name in text]


def _block(text: str) -> str:
    """What a cell says. Sentences go on in a next line where the page is narrow, columns of a table do not."""
    lines = text.splitlines()
    columns = [line for line in lines if "   " in line.strip()]
    if not columns:
        return f"```{{.text .output}}\n{text}\n```"
    folded = [line if line in columns else textwrap.fill(line, WIDTH) for line in lines]
    return "\n".join(["```{.text .output .table}", *folded, "```"])


def _outputs(cell: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Words and picture of each output of a cell, either of which may be empty."""
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream":
            yield "".join(output["text"]).rstrip(), b""
            continue
        data = output["data"]
        shown = SHOWN.fullmatch("".join(data.get("text/html", "")))
        if shown:
            yield html.unescape(shown[1]), base64.b64decode(shown[2])
        elif "image/png" in data:
            yield "", base64.b64decode("".join(data["image/png"]))
        else:
            yield "".join(data["text/plain"]), b""


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs: every notebook becomes a page, and stays beside it to be taken home."""
    from mkdocs.structure.files import File

    for name in names():
        text, pictures = page(name)
        files.append(File.generated(config, f"tutorials/{name}.md", content=text))
        for file, picture in pictures.items():
            files.append(File.generated(config, f"tutorials/{file}", content=picture))
    return files


if __name__ == "__main__":
    for name in sys.argv[1:] or names():
        text = json.dumps(run(name), indent=1, ensure_ascii=False) + "\n"
        (PLACE / f"{name}.ipynb").write_text(text, encoding="utf-8")
        print(name)
