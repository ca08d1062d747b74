"""What the installation brings for Jupyter's server and JupyterLab."""

WIDGET = "application/vnd.jupyter.widget-view+json"


def _jupyter_server_extension_points():
    return [{"module": __name__}]


def _load_jupyter_server_extension(app):
    app.contents_manager.register_pre_save_hook(leave_pictures)


def leave_pictures(model, **_):
    """Of an explorer, save the picture only: the server calls this.

    A saved widget is dead without its kernel: opened again, it says "model
    not found" where its picture could be seen. So where a picture stands
    beside the widget, the picture is what is saved.

    Args:
        model: what is saved, changed in place; see jupyter_server's
            `register_pre_save_hook`.
    """
    if model["type"] != "notebook" or model["content"]["nbformat"] != 4:
        return
    for cell in model["content"]["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                data.pop(WIDGET, None)
