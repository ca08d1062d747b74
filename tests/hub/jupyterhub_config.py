"""A class on one machine, on the loopback: to try it, not to teach with it.

The simple spawner runs every student's server as one and the same user of
the machine, and the dummy authenticator believes whoever logs in.
"""

import os
import shutil
import sys
from pathlib import Path

c = get_config()  # noqa: F821

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
HOMES = Path(os.environ["CLASS_HOMES"])


def hand_out(spawner):
    """Give a student who comes for the first time a copy of the notebooks."""
    home = Path(spawner.home_dir)
    if not home.exists():
        home.mkdir(mode=0o700)
        shutil.copytree(NOTEBOOKS, home / "notebooks")


c.JupyterHub.bind_url = os.environ["CLASS_URL"]
c.JupyterHub.hub_bind_url = os.environ["CLASS_HUB_URL"]
c.ConfigurableHTTPProxy.api_url = os.environ["CLASS_PROXY_URL"]
c.ConfigurableHTTPProxy.command = [os.environ["CLASS_PROXY"]]

c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allowed_users = set(os.environ["CLASS_STUDENTS"].split())

c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(HOMES / "{username}")
c.Spawner.pre_spawn_hook = hand_out
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.args = ["--allow-root"]
