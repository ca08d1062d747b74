// JupyterLab and Notebook give a picture in an output no alternative text,
// though its metadata has one. Handed on here, it reaches a screen reader.
// (What a build would make of such a small extension, written by hand.)

let shared;  // JupyterLab's own modules

function named(renderer) {
  const render = renderer.renderModel.bind(renderer);
  renderer.renderModel = async (model, ...rest) => {
    await render(model, ...rest);
    const {alt} = model.metadata['image/png'] ?? {};
    if (alt) renderer.node.querySelector('img').alt = alt;
  };
  return renderer;
}

async function extension() {
  const [rendermime] = Object.values(shared['@jupyterlab/rendermime']);
  const {IRenderMimeRegistry} = (await rendermime.get())();
  const plugin = {
    id: 'gpt-part-by-part:alt',
    autoStart: true,
    requires: [IRenderMimeRegistry],
    activate: (app, registry) => {
      const png = registry.getFactory('image/png');
      registry.addFactory({
        ...png,
        mimeTypes: ['image/png'],
        createRenderer: (options) => named(png.createRenderer(options)),
      }, png.defaultRank);
    },
  };
  return () => plugin;
}

(window._JUPYTERLAB ??= {})['gpt-part-by-part'] = {
  init: (scope) => { shared = scope; },
  get: extension,
};
