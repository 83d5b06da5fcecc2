"""What Rankbook stands on: known holes of what is installed, and the list of it that goes with a build (an SBOM).

python .ci/supply_chain.py audit       known holes, where their list can be reached; fails nothing
python .ci/supply_chain.py sbom FILE   all that an installed Rankbook brings, in CycloneDX's form
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, distributions, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
OWN = "rankbook"
EXTRAS = ("", "serve", "dask")  # what a wheel can bring; `dev` it cannot
SERVICES = ("pypi", "osv")  # of pip-audit, one as good as the other
PATIENCE = 600
Look = Callable[[str, Mapping[str, str]], "dict[str, Any] | None"]


def main() -> None:
    match sys.argv[1:]:
        case ["audit"]:
            print("\n".join(audit(installed(), looked_up)))
        case ["sbom", file]:
            made = Path(file)
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(json.dumps(shipped(environment()), indent=2) + "\n", encoding="utf-8")
            print(f"{file} lists what an installed Rankbook brings.")
        case _:
            sys.exit(__doc__)


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    """Versions by name, ours left out. A build of one's own (`+cpu`) has the holes of what it was built from."""
    found = {plain(each.name): each.version.partition("+")[0] for each in distributions()}
    return {name: version for name, version in sorted(found.items()) if name != OWN}


# -- known holes -------------------------------------------------------------------------------------------------------


def audit(packages: Mapping[str, str], look: Look) -> list[str]:
    """Sentences. What could not be looked up is never said to be without holes."""
    for service in SERVICES:
        report = look(service, packages)
        known = [each for each in (report or {}).get("dependencies", []) if "vulns" in each]
        if known:
            break
    else:
        return ["The lists of known holes cannot be reached from here, so nothing was looked up. Run it again online."]
    said = [
        f"{each['name']} {each['version']}: {hole['id']} {' '.join(hole.get('aliases', []))}".rstrip()
        + f"; mended in {', '.join(hole['fix_versions']) or 'no version yet'}."
        for each in known
        for hole in each["vulns"]
    ]
    missing = sorted(set(packages) - {plain(each["name"]) for each in known})
    said.append(f"{len(said)} known holes in {len(known)} packages that were looked up.")
    if missing:
        said.append(f"{len(missing)} could not be looked up: {', '.join(missing)}.")
    return said


def looked_up(service: str, packages: Mapping[str, str]) -> dict[str, Any] | None:
    """pip-audit's report of these versions and no others; None where it could make none."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.writelines(f"{name}=={version}\n" for name, version in packages.items())
        listed.flush()
        asked = ["--requirement", listed.name, "--no-deps", "--disable-pip", "--vulnerability-service", service]
        quiet = ["--progress-spinner", "off", "--format", "json"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pip_audit", *asked, *quiet],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            made = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            return None
    return made if isinstance(made, dict) else None


# -- the list that goes with a build -----------------------------------------------------------------------------------


def environment() -> dict[str, Any]:
    """All that is installed here, with licences and with who needs whom, as cyclonedx-py tells it."""
    asked = ["environment", "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", sys.executable]
    program = Path(sys.executable).with_name("cyclonedx-py")
    done = subprocess.run([str(program), *asked], capture_output=True, text=True, timeout=PATIENCE, check=True)
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def shipped(made: dict[str, Any]) -> dict[str, Any]:
    """The same without what only its makers need."""
    needed = needs(OWN, EXTRAS)
    kept = [each for each in made.get("components", []) if plain(each["name"]) in needed]
    root = made["metadata"]["component"]["bom-ref"]
    refs = {root, *(each["bom-ref"] for each in kept)}
    direct = direct_needs(OWN, EXTRAS)
    graph = [
        {**each, "dependsOn": sorted(set(each.get("dependsOn", [])) & refs)}
        for each in made.get("dependencies", [])
        if each["ref"] in refs - {root}
    ]
    own = {"ref": root, "dependsOn": sorted(each["bom-ref"] for each in kept if plain(each["name"]) in direct)}
    return {**made, "components": kept, "dependencies": [own, *graph]}


def direct_needs(name: str, extras: tuple[str, ...] = ("",)) -> dict[str, tuple[str, ...]]:
    """Whom a package asks for on this machine, each with its extras."""
    try:
        asked = [Requirement(each) for each in requires(name) or ()]
    except PackageNotFoundError:
        return {}
    return {
        plain(each.name): ("", *sorted(each.extras))
        for each in asked
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
    }


def needs(name: str, extras: tuple[str, ...]) -> set[str]:
    """The same of all of these in turn."""
    found: set[str] = set()
    pending, seen = [(name, extras)], set[tuple[str, tuple[str, ...]]]()
    while pending:
        if (at := pending.pop()) not in seen:
            seen.add(at)
            found |= direct_needs(*at).keys()
            pending += direct_needs(*at).items()
    return found - {name}


if __name__ == "__main__":
    main()
