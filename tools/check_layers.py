#!/usr/bin/env python3
# tools/check_layers.py -- who may include whom: compares every #include of src/ and include/ with
# the file LAYERS.
#
#   folders   a folder of src/ includes itself and the folders LAYERS names for it, which stand above it
#   leaves    egraph, device and formats see only base
#   public    include/luminal/*.h include luminal/* and the standard library, nothing else
#   processor files outside of codegen and device/cpu that name the processor's types: MOST_OF_PROCESSOR
#   spelling  includes are "folder/file.h" from src/, never relative, and the file exists
import argparse
import pathlib
import re
import sys

import tree

PROCESSOR = re.compile(r"\b(?:CpuTarget|CpuDevice)\b")
MOST_OF_PROCESSOR = 6  # files: what is made for any device passes a codegen::Target on
LEAVES = ("egraph", "device", "formats")
GENERATED = {"build_info.h": "src/cli/main.cpp"}  # made by the build, and who may include it
# Standard headers have no dot and no slash; public headers use these and no others.
STANDARD = re.compile(r"^(?:[a-z_0-9]+|std(?:def|int)\.h)$")  # the latter two: C reads luminal/c.h


def read_layers(root):
    """(folders it may see by folder, folder by public header, complaints)"""
    components, public, bad = {}, {}, []
    for number, line in enumerate((root / "LAYERS").read_text().splitlines(), 1):
        where = f"LAYERS:{number}"
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, colon, rest = line.partition(":")
        if not colon:
            bad.append(f"{where}: expected 'folder: folder...' or 'luminal/header.h: folder'")
        elif name.startswith("luminal/"):
            public[name] = rest.strip()
            if rest.strip() not in components:
                bad.append(f"{where}: {name} belongs to '{rest.strip()}', which is not a folder of this list")
            if not (root / "include" / name).is_file():
                bad.append(f"{where}: there is no include/{name}")
        else:
            seen = rest.split()
            for other in seen:
                if other not in components:
                    bad.append(f"{where}: {name} names {other}, which does not stand above it")
            if name in components:
                bad.append(f"{where}: {name} stands here twice")
            if name in LEAVES and seen != ["base"]:
                bad.append(f"{where}: {name} may see base and nothing else")
            components[name] = set(seen)
    return components, public, bad


def check(root):
    components, public, bad = read_layers(root)
    processor = []
    for path in tree.files(root, {".h", ".cpp"}):
        parts = path.parts
        if parts[0] not in ("src", "include"):
            continue
        is_public = parts[0] == "include"
        component = public.get("/".join(parts[1:])) if is_public else parts[1]
        if is_public and component is None:
            bad.append(f"{path}:1: LAYERS does not say which folder implements it")
            continue
        if component not in components:
            bad.append(f"{path}:1: the folder {component} is not in LAYERS")
            continue
        text = (root / path).read_text(errors="replace")
        if parts[1] != "codegen" and parts[1:3] != ("device", "cpu") and PROCESSOR.search(text):
            processor.append(str(path))
        for line, name, angled in tree.includes(text):
            where, target = f"{path}:{line}", name.split("/")[0]
            if angled:
                if is_public and not STANDARD.match(name):
                    bad.append(f"{where}: a public header may not include <{name}>")
                elif target == "luminal" or target in components:
                    bad.append(f'{where}: write "{name}" for a file of this tree')
                continue
            if GENERATED.get(name) == str(path):
                continue
            if target == "luminal":
                owner = public.get(name)
                if not (root / "include" / name).is_file():
                    bad.append(f"{where}: there is no include/{name}")
                elif owner is None:
                    bad.append(f"{where}: LAYERS does not say which folder implements {name}")
                elif owner != component and owner not in components[component]:
                    bad.append(f"{where}: {component} may not include {name} (it belongs to {owner})")
            elif is_public:
                bad.append(f'{where}: a public header may not include "{name}"')
            elif target not in components or "/" not in name:
                bad.append(f'{where}: "{name}" does not start with a folder of src/')
            elif not (root / "src" / name).is_file():
                bad.append(f"{where}: there is no src/{name}")
            elif target != component and target not in components[component]:
                bad.append(f"{where}: {component} may not include {target} (see LAYERS)")
    if len(processor) > MOST_OF_PROCESSOR:
        bad.append(f"{len(processor)} files outside of codegen and device/cpu name CpuTarget or CpuDevice, "
                   f"expected at most {MOST_OF_PROCESSOR}: {' '.join(processor)}")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=tree.default_root())
    bad = check(parser.parse_args().root)
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
