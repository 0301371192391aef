"""The arrow and its walls: which folder may include what (the table of docs/architecture.md, "The arrow")."""

from __future__ import annotations

import re

import pytest
import tree

# Element types are everybody's vocabulary: dtype.h includes nothing and may be included from anywhere.
SUPPORT = ("compiler/support/", "compiler/scalar/dtype.h")
SCALAR = ("compiler/scalar/", *SUPPORT)
GRAPH = ("compiler/graph/", *SUPPORT)
PYTHON = ("compiler/python/", *SUPPORT)
MAY_INCLUDE: dict[str, tuple[str, ...]] = {
    "compiler/support": SUPPORT,
    "compiler/scalar": SCALAR,
    "compiler/python": PYTHON,
    "compiler/frame": ("compiler/frame/", "compiler/bytecode/", *PYTHON),  # walking reads canonical instructions
    "compiler/bytecode": ("compiler/bytecode/", *PYTHON),
    "compiler/graph": ("compiler/graph/", *SCALAR),
    "compiler/capture": ("compiler/capture/", "compiler/frame/", "compiler/bytecode/", *GRAPH, *PYTHON),
    "compiler/autograd": ("compiler/autograd/", *GRAPH),
    "compiler/fusion": ("compiler/fusion/", *GRAPH, *SCALAR),
    "compiler/codegen": ("compiler/codegen/", "compiler/fusion/loop_nest.h", *SCALAR),
    "compiler/runtime": ("compiler/runtime/", "compiler/codegen/compiled_code.h", *SUPPORT),
    # The product of the pure half is declared by the pipeline; a replay writes the frame state that its exit describes.
    "compiler/replay": (
        "compiler/replay/",
        "compiler/runtime/",
        "compiler/pipeline.h",
        "compiler/fusion/memory_plan.h",
        "compiler/fusion/schedule.h",
        "compiler/frame/frame_state.h",
        "compiler/frame/user_stack.h",
        "compiler/capture/",
        *GRAPH,
        *PYTHON,
    ),
    "compiler/cache": ("compiler/cache/", "compiler/replay/", "compiler/capture/", *PYTHON),
    "compiler/report": ("compiler/",),  # products' headers: headers_only() below
    "compiler": ("compiler/", "dyno/"),  # the driver and the list of stages
    "dyno": ("compiler/", "dyno/"),
    "kernel": ("kernel/", "dyno/core_api.h"),
}
# A folder's private words that end a path in its own name, not in compiler/..., count as its own.
WALLS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        r"^(Python\.h|frameobject\.h|internal/pycore\w*\.h|pycore_\w+\.h|structmember\.h|numpy/.*|torch/.*|ATen/.*|c10/.*)$",
        "CPython",
        (
            "kernel",
            "dyno",
            "compiler/python",
            "compiler/frame",
            "compiler/bytecode",
            "compiler/capture",
            "compiler/replay",
            "compiler/cache",
            "compiler",
        ),
    ),
    (r"^(llvm|llvm-c)/", "LLVM", ("compiler/codegen",)),
    (r"^(cuda|cuda_runtime\w*|nvrtc|nvJitLink)\.h$", "the CUDA driver", ("compiler/runtime/cuda",)),
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def folder_of(path: str) -> str:
    """The row of the table that a file belongs to."""
    parts = path.split("/")[:-1]
    return "/".join(parts[:2]) if parts[:1] == ["compiler"] else parts[0] if parts else ""


def complaints(path: str, source: str) -> list[str]:
    """What a C++ file includes and may not."""
    folder, inside = folder_of(path), path.rsplit("/", 1)[0]
    found = []
    for bracket, target in INCLUDE.findall(source):
        for pattern, what, rooms in WALLS:
            if re.match(pattern, target) and inside not in rooms and folder not in rooms:
                found.append(f"{path}: {target} lets {what} into {folder}")
        ours = target.startswith(("compiler/", "dyno/", "kernel/"))
        if bracket == '"' and not ours and "/" not in target:
            found.append(f'{path}: "{target}" is not written from the root')
        if ours and not target.startswith(MAY_INCLUDE[folder]):
            found.append(f"{path}: {folder} may not include {target}")
        if folder == "compiler/report" and ours and not target.endswith((".h", ".def")):
            found.append(f"{path}: a report reads products' headers only, not {target}")
    return found


def walled() -> list[str]:
    return [name for name in tree.cpp_files() if name.split("/")[0] in ("compiler", "dyno", "kernel")]


def test_every_folder_has_a_row() -> None:
    assert {folder_of(name) for name in walled()} <= MAY_INCLUDE.keys()


def test_walls_hold() -> None:
    found = [complaint for name in walled() for complaint in complaints(name, tree.text(name))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "path, line",
    [
        ("compiler/graph/graph.cpp", "#include <Python.h>"),
        ("compiler/fusion/schedule.cpp", '#include "compiler/python/ref.h"'),
        ("compiler/support/arena.cpp", '#include "compiler/graph/graph.h"'),
        ("compiler/runtime/device.cpp", "#include <llvm/IR/Module.h>"),
        ("compiler/codegen/emit.cpp", '#include "compiler/fusion/schedule.h"'),
        ("compiler/runtime/cpu.cpp", "#include <cuda.h>"),
        ("kernel/shell.cpp", '#include "compiler/compiler.h"'),
        ("compiler/graph/graph.cpp", '#include "graph.h"'),
    ],
)
def test_a_breach_is_found(path: str, line: str) -> None:
    assert len(complaints(path, line)) == 1


def test_what_is_allowed_is_not_reported() -> None:
    assert not complaints("compiler/runtime/cuda/driver.cpp", "#include <cuda.h>")
    assert not complaints("compiler/codegen/emit.cpp", '#include <llvm/IR/Module.h>\n#include "compiler/fusion/loop_nest.h"')
    assert not complaints("kernel/module.cpp", '#include <Python.h>\n#include "dyno/core_api.h"')
