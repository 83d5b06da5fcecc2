"""The container files by every static means: no engine is here to build or run them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field
from typer.testing import CliRunner

from core.store.engine import OLDEST_PGVECTOR
from core.store.server.embedded import EmbeddedServer
from tests.conftest import make_home, remove_home
from workbench.cli import app

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
NODE = ROOT / "docker" / "citus" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"
CLUSTER = ROOT / "docker" / "compose.citus.yaml"
PINNED = re.compile(r"[\w./-]+:\d+\.\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?")
KNOWN = {
    *("FROM", "WORKDIR", "ENV", "RUN", "COPY", "LABEL", "USER", "VOLUME", "EXPOSE"),
    *("HEALTHCHECK", "ENTRYPOINT", "CMD"),
}


def instructions(file: Path = DOCKERFILE) -> list[tuple[str, str]]:
    """A Dockerfile as instructions with their arguments, comments and continued lines put away."""
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    split = (line.split(None, 1) for line in joined.splitlines() if line.strip())
    return [(name, rest) for name, rest in split]


def arguments(wanted: str) -> list[str]:
    return [rest for name, rest in instructions() if name == wanted]


def last_stage() -> list[tuple[str, str]]:
    every = instructions()
    return every[max(at for at, (name, _) in enumerate(every) if name == "FROM") :]


def copied() -> list[str]:
    """What is copied out of the checkout."""
    parts = [shlex.split(rest) for rest in arguments("COPY") if "--from=" not in rest]
    return [source for words in parts for source in [word for word in words if not word.startswith("--")][:-1]]


def let_through(source: str) -> bool:
    """What .dockerignore says of a path: the last line that fits decides."""
    through = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().lstrip("!").rstrip("/")
        tops = [source, *map(str, Path(source).parents)]
        if pattern and not line.startswith("#") and any(fnmatch(top, pattern) for top in tops if top != "."):
            through = line.startswith("!")
    return through


@pytest.mark.parametrize("file", [DOCKERFILE, NODE])
def test_every_line_of_a_dockerfile_is_an_instruction_that_there_is(file: Path) -> None:
    assert {name for name, _ in instructions(file)} <= KNOWN
    assert instructions(file)[0][0] == "FROM"


def test_what_is_copied_exists_is_let_through_and_is_all_that_the_wheel_is_made_of() -> None:
    assert [source for source in copied() if not (ROOT / source).exists()] == []
    assert [source for source in copied() if not let_through(source)] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert needed | {*wheel["packages"], *wheel["force-include"]} <= set(copied())


@pytest.mark.parametrize("kept_out", [".git", ".venv", "tests", "docker", "shared", ".env"])
def test_what_has_no_business_in_an_image_is_kept_out(kept_out: str) -> None:
    assert not let_through(kept_out)


def test_images_are_pinned() -> None:
    images = [rest.split()[0] for file in (DOCKERFILE, NODE) for name, rest in instructions(file) if name == "FROM"]
    images.append(written().services["db"].image or "")
    assert [image for image in images if not PINNED.fullmatch(image)] == []


def test_what_pip_installs_is_pinned_and_torch_comes_from_the_index_of_cpu_builds_first() -> None:
    installs = [part for rest in arguments("RUN") for part in rest.split("&&") if "pip install" in part]
    assert all("--constraint constraints.txt" in part for part in installs)
    # By itself: that index lacks most of the versions that are pinned of what it needs, which come with the rest.
    assert re.search(r"--index-url https://download\.pytorch\.org/whl/cpu --no-deps torch\s*$", installs[0])
    assert re.search(r"^torch==\d+\.\d+\.\d+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


def test_the_python_is_one_that_the_project_runs_on() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    for rest in arguments("FROM"):
        found = re.search(r"python:(\d+)\.(\d+)", rest)
        assert found
        assert tuple(map(int, found.groups())) >= tuple(map(int, needed.removeprefix(">=").split(".")))


def test_the_last_word_on_who_runs_it_is_not_root() -> None:
    users = [rest for name, rest in last_stage() if name == "USER"]
    assert users
    assert users[-1].split(":")[0] not in {"root", "0"}
    (creation,) = [rest for name, rest in last_stage() if name == "RUN" and "useradd" in rest]
    assert f"--uid {users[-1]}" in creation


def test_whoever_runs_it_cannot_rewrite_the_code_and_what_was_compiled_is_found_again() -> None:
    environment = [dict(word.split("=", 1) for word in shlex.split(rest)) for rest in arguments("ENV")]
    (cache,) = {each["NUMBA_CACHE_DIR"] for each in environment if "NUMBA_CACHE_DIR" in each}
    taken = [shlex.split(rest) for name, rest in last_stage() if name == "COPY"]
    assert [words[-1] for words in taken if any(word.startswith("--chown") for word in words)] == [cache]
    assert ["--from=build", "/opt/rankbook", "/opt/rankbook"] in taken


def test_it_tells_whether_it_is_healthy_on_the_port_that_it_serves() -> None:
    (check,) = [rest for name, rest in last_stage() if name == "HEALTHCHECK"]
    port = dict(last_stage())["EXPOSE"]
    assert f":{port}/health" in check
    command = json.loads(check.split("CMD", 1)[1])
    compile(command[-1], "healthcheck", "exec")
    assert json.loads(dict(last_stage())["CMD"])[-3:-1] == ["--port", port]


def test_it_starts_a_program_that_there_is_with_flags_that_it_has() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (program,) = json.loads(dict(last_stage())["ENTRYPOINT"])
    assert program in scripts
    help_text = CliRunner().invoke(app, ["--help"]).stdout
    given = [json.loads(dict(last_stage())["CMD"]), *(written(file).services["app"].command for file in BOTH)]
    flags = [word for words in given for word in words if word.startswith("--")]
    assert flags
    assert [flag for flag in flags if not re.search(rf"(?<![\w-]){flag}(?![\w-])", help_text)] == []


# -- compose ---------------------------------------------------------------------------------------------------------


class Strict(BaseModel):
    """What is not named here cannot stand there: `privileged`, `network_mode: host` and their like."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Build(Strict):
    context: str
    dockerfile: str


class Healthcheck(Strict):
    test: list[str] = Field(min_length=2)
    interval: str = Field(pattern=r"^\d+s$")
    timeout: str = Field(pattern=r"^\d+s$")
    retries: int = Field(ge=1)


class Condition(Strict):
    condition: Literal["service_healthy", "service_completed_successfully"]


class Service(Strict):
    build: Build | None = None
    image: str | None = None
    environment: dict[str, str]
    ports: list[str] = []
    volumes: list[str] = []
    depends_on: dict[str, Condition] = {}
    entrypoint: list[str] = []
    command: str | list[str] = ""
    shm_size: str = ""
    healthcheck: Healthcheck | None = None
    restart: Literal["unless-stopped", "on-failure"]
    read_only: bool = False
    tmpfs: list[str] = []
    cap_drop: list[str] = []
    security_opt: list[str] = []


class Compose(Strict):
    name: str
    services: dict[str, Service]
    volumes: dict[str, None]


BOTH = (COMPOSE, CLUSTER)
NODES = ("coordinator", "worker-1", "worker-2")


def written(file: Path = COMPOSE) -> Compose:
    """What it says; what begins with x- is only said to be repeated."""
    loaded: dict[str, Any] = yaml.safe_load(file.read_text())
    return Compose.model_validate({name: each for name, each in loaded.items() if not name.startswith("x-")})


def test_the_compose_file_holds_what_we_rely_on_and_nothing_else() -> None:
    services = written().services
    assert set(services) == {"app", "db"}
    assert services["app"].build == Build(context="..", dockerfile="docker/Dockerfile")
    assert services["app"].cap_drop == ["ALL"]
    assert services["app"].read_only
    assert set(services["app"].depends_on) == {"db"}


def test_the_cluster_has_a_coordinator_two_workers_and_what_makes_them_known_to_each_other() -> None:
    services = written(CLUSTER).services
    assert set(services) == {"app", *NODES, "register"}
    assert all(services[name].build == Build(context="citus", dockerfile="Dockerfile") for name in (*NODES, "register"))
    assert services["register"].command == list(NODES)
    assert set(services["register"].depends_on) == set(NODES)
    assert services["register"].restart == "on-failure"
    assert services["app"].depends_on["register"].condition == "service_completed_successfully"
    assert services["app"].read_only
    assert services["app"].cap_drop == ["ALL"]


def test_what_registers_the_nodes_is_in_the_image_is_shell_and_asks_for_nothing_that_is_not_given() -> None:
    script = NODE.parent / "register.sh"
    (copied_to,) = [rest.split()[-1] for name, rest in instructions(NODE) if name == "COPY" and "register.sh" in rest]
    assert Path(copied_to).name == written(CLUSTER).services["register"].entrypoint[0]
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    given = written(CLUSTER).services["register"].environment
    assert {"PGUSER", "PGDATABASE", "PGPASSWORD"} <= set(given)
    assert given == written(CLUSTER).services["coordinator"].environment


def test_the_registration_says_who_is_who_and_stops_at_the_first_failure(tmp_path: Path) -> None:
    """Run for real, with a psql that writes down what it is asked."""
    told, psql = tmp_path / "told", tmp_path / "psql"
    psql.write_text(f'#!/bin/sh\necho "$@" >> {told}\ncat >> {told}\n')
    psql.chmod(0o755)
    run = ["sh", str(NODE.parent / "register.sh"), *NODES]
    subprocess.run(run, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    said = told.read_text()
    assert said.index("citus_set_coordinator_host") < said.index("citus_add_node")
    assert said.count("citus_add_node") == 2
    assert all(f"host={name} " in said for name in NODES)
    psql.write_text("#!/bin/sh\nexit 3\n")
    assert subprocess.run(run, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False).returncode == 3


def test_the_image_of_a_node_has_pgvector_of_a_version_that_serves() -> None:
    (install,) = [rest for name, rest in instructions(NODE) if name == "RUN"]
    found = re.search(r"postgresql-\$\{PG_MAJOR\}-pgvector=(\d+)\.(\d+)\.", install)
    assert found
    assert (int(found[1]), int(found[2])) >= OLDEST_PGVECTOR


@pytest.mark.parametrize("file", BOTH)
def test_ports_are_published_on_loopback_only(file: Path) -> None:
    services = written(file).services
    ports = {name: service.ports for name, service in services.items() if service.ports}
    assert set(ports) == ({"app"} if file == COMPOSE else {"app", "coordinator"})
    for name, published in ports.items():
        for port in published:
            host, _, inside = port.rsplit(":", 2)
            assert host == "127.0.0.1"
            assert inside == (dict(last_stage())["EXPOSE"] if name == "app" else "5432")


@pytest.mark.parametrize("file", BOTH)
def test_where_nothing_else_can_be_written_what_was_compiled_has_a_volume(file: Path) -> None:
    app = written(file).services["app"]
    assert app.read_only
    cache = next(rest for rest in arguments("ENV") if "NUMBA_CACHE_DIR" in rest).split("NUMBA_CACHE_DIR=")[1].split()[0]
    assert cache in {volume.split(":")[1] for volume in app.volumes}


@pytest.mark.parametrize("file", BOTH)
def test_only_where_the_port_is_on_loopback_is_nobody_asked_to_sign_in(file: Path) -> None:
    assert "--open-to-all" not in dict(last_stage())["CMD"]
    assert "--open-to-all" in written(file).services["app"].command


@pytest.mark.parametrize(("file", "server"), [(COMPOSE, "db"), (CLUSTER, "coordinator")])
def test_the_password_must_be_given_and_is_nowhere_written(file: Path, server: str) -> None:
    required = re.compile(r"\$\{RANKBOOK_DB_PASSWORD:\?[^}]+\}")
    services = written(file).services
    for service in services.values():
        for name in ("POSTGRES_PASSWORD", "PGPASSWORD"):
            assert required.fullmatch(service.environment.get(name, "${RANKBOOK_DB_PASSWORD:?none here}"))
    assert "POSTGRES_PASSWORD" in services[server].environment
    dsn, found = required.subn("PASSWORD", services["app"].environment["RANKBOOK_DSN"])
    assert found == 1
    user, database = (services[server].environment[name] for name in ("POSTGRES_USER", "POSTGRES_DB"))
    assert dsn == f"postgresql://{user}:PASSWORD@{server}:5432/{database}"


@pytest.mark.parametrize(("file", "name"), [(COMPOSE, "db"), *((CLUSTER, each) for each in NODES)])
def test_a_server_tells_when_it_is_ready_and_has_memory_to_share_for_index_builds(file: Path, name: str) -> None:
    server = written(file).services[name]
    assert server.healthcheck is not None
    assert server.healthcheck.test[0] == "CMD-SHELL"
    assert "pg_isready" in server.healthcheck.test[1]
    size = re.fullmatch(r"(\d+)gb", server.shm_size)
    maintenance = re.search(r"maintenance_work_mem=(\d+)MB", str(server.command))
    assert size
    assert maintenance
    assert int(size[1]) * 1024 > int(maintenance[1])


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), [(COMPOSE, "db"), (CLUSTER, "coordinator")])
def test_a_server_begins_with_what_initdb_takes(file: Path, name: str) -> None:
    """Run for real, with the initdb that there is."""
    given = shlex.split(written(file).services[name].environment["POSTGRES_INITDB_ARGS"])
    home = make_home()
    try:
        server = EmbeddedServer(home)
        server._make_folders()
        initdb = [str(server.programs.path("initdb")), f"--pgdata={server.data}", "--no-sync", *given]
        server.programs.run(initdb)
        ours = {"--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"}
        assert set(given) == ours, "else words fold otherwise than in the embedded server"
    finally:
        remove_home(home)


@pytest.mark.parametrize("file", BOTH)
def test_volumes_are_declared_and_belong_to_one_service_each(file: Path) -> None:
    compose = written(file)
    mounts = [mount for service in compose.services.values() for mount in service.volumes]
    assert sorted(mount.split(":")[0] for mount in mounts) == sorted(compose.volumes)
    assert f"home:{dict(last_stage())['VOLUME']}" in mounts


def test_data_stands_where_a_volume_keeps_it() -> None:
    for name in NODES:
        node = written(CLUSTER).services[name]
        (mount,) = node.volumes
        assert Path(mount.split(":")[1]) in Path(node.environment["PGDATA"]).parents
    mounts = written().services["db"].volumes
    assert "database:/var/lib/postgresql" in mounts  # where the images from PostgreSQL 18 on keep it


def test_the_files_say_that_they_were_checked_statically() -> None:
    for file in (DOCKERFILE, NODE, *BOTH):
        assert "Checked statically only (tests/unit/test_docker.py)" in file.read_text()


@pytest.mark.skipif(not shutil.which("hadolint"), reason="hadolint is not on the PATH")
def test_hadolint_has_nothing_to_say() -> None:
    found = subprocess.run(["hadolint", str(DOCKERFILE), str(NODE)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
