"""A class on one JupyterHub: all at once, and nobody in another's files.

The figures that it prints (pytest -m hub -s) are the memory of a class in
which everybody runs the notebook that needs most.
"""

import platform
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import websocket
from class_on_hub import Hub, Student
from test_notebook_format import code_cells, read
from test_notebook_runs import printed

pytestmark = [
    pytest.mark.hub,
    pytest.mark.skipif(
        platform.system() != "Linux", reason="reads Linux's /proc"
    ),
]

NAME = "06-assembling-the-gpt-model"
SAVED = {cell.id: printed(cell) for cell in code_cells(read(NAME))}


@pytest.fixture(scope="module", params=[1, 4, 8])
def students(request, tmp_path_factory):
    """A class that has run its notebook, with all kernels still there."""
    names = [f"student-{number}" for number in range(1, request.param + 1)]
    start = time.monotonic()
    hub = Hub(tmp_path_factory.mktemp("hub"), names)
    try:
        hub.wait()
        idle = hub.megabytes()
        everybody = [Student(hub, name) for name in names]
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(attend, everybody))
        seconds = time.monotonic() - start
        rest = hub.megabytes()
        each = (hub.peak - idle) / len(names)
        print(
            f"\n{len(names)} at once: {seconds:.0f} s, peak {hub.peak:.0f} MB "
            f"({rest:.0f} MB once all have run); hub and proxy {idle:.0f} MB, "
            f"a student {each:.0f} MB; beside 1 GB for the system, 16 GB hold "
            f"{(15_000 - idle) // each:.0f} students"
        )
        yield everybody
    finally:
        left = hub.stop()
    assert not left, f"the hub has not ended {left}"


def attend(student):
    student.log_in()
    student.wait_for_server()
    student.save("answer.txt", f"{student.name}'s answer")
    student.notebook = student.open(f"notebooks/{NAME}.ipynb")
    student.run(student.notebook)


def test_everybody_gets_the_saved_outputs(students):
    for student in students:
        for cell in code_cells(student.notebook):
            kinds = {output.output_type for output in cell.outputs}
            assert "error" not in kinds, (student.name, cell.outputs)
            assert printed(cell) == SAVED[cell.id], (student.name, cell.id)


def test_a_student_fits_into_the_memory_that_the_readme_names(students):
    assert students[0].hub.peak < 500 + 1200 * len(students)


def test_nobody_sees_the_files_of_another(students):
    path = "api/contents/answer.txt"
    for number, student in enumerate(students):
        own = f"{student.name}'s answer"
        page = student.browser.get(f"{student.server}/files/answer.txt")
        file = student.ask("GET", f"{student.server}/{path}")
        assert (page.text, file.json()["content"]) == (own, own)
        other = students[number - 1]
        if other is student:
            continue
        url = f"{other.server}/{path}"
        users = f"{other.hub.url}/hub/api/users"
        out = f"..%2F{other.name}%2Fanswer.txt"
        answers = [
            student.browser.get(f"{other.server}/files/answer.txt"),
            student.ask("GET", url),
            student.ask("PUT", url, json={"type": "file", "content": ""}),
            student.ask("DELETE", url),
            student.ask("GET", f"{other.server}/files/answer.txt"),
            student.ask("GET", f"{student.server}/api/contents/{out}"),
            student.ask("GET", f"{users}/{other.name}"),
        ]
        assert {answer.status_code for answer in answers} <= {403, 404}
        with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
            student.connect(other)
        kept = other.ask("GET", url).json()["content"]
        assert kept == f"{other.name}'s answer"
