"""Test any notebook cell alone, in any order, in any process.

nbval runs the cells that pytest chose, one after another. Chosen by `--lf`,
shuffled or shared among processes, a cell would miss what the cells above it
define: they run first, unchecked, if this kernel has not run them yet.
"""

import pytest
from nbval.plugin import IPyNbCell


@pytest.hookimpl(trylast=True)  # by then nbval has started the kernel
def pytest_runtest_setup(item):
    if not isinstance(item, IPyNbCell):
        return
    kernel = item.parent.kernel
    done = vars(kernel).setdefault("cells_that_ran", set())
    code = [c.source for c in item.parent.nb.cells if c.cell_type == "code"]
    for number in range(item.cell_num):
        if number not in done:
            run = kernel.execute_cell_input(code[number], allow_stdin=False)
            kernel.await_reply(run, timeout=60)
            kernel.await_idle(run, timeout=60)
            done.add(number)
    done.add(item.cell_num)
