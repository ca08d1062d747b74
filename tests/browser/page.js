// What the tests ask a page of JupyterLab, as `tests.…`. Texts are read by
// textContent: innerText leaves out what is scrolled out of sight.

window.tests = {
  context: () => jupyterapp.shell.currentWidget.context,
  kernel: () => tests.context().sessionContext.session.kernel,
  all: (query) => [...document.querySelectorAll(query)],

  // Playwright itself waits for a promise for ever.
  within: (seconds, promise) => Promise.race([
    promise,
    new Promise((_, fail) => setTimeout(
      () => fail(new Error(`not done in ${seconds} s`)), 1000 * seconds))]),

  execute: (name, given) =>
    tests.within(300, jupyterapp.commands.execute(name, given)).then(() => {}),

  async ready() {
    await jupyterapp.restored;
    await tests.context().ready;
    await tests.within(60, tests.context().sessionContext.ready);
    await tests.within(60, tests.kernel().info);
    const cells = jupyterapp.shell.currentWidget.content.widgets;
    await tests.within(60, Promise.all(cells.map((cell) => cell.ready)));
    tests.waiting = new Set();
    tests.kernel().anyMessage.connect(tests.follow);
  },

  // Collect the widgets' messages that the kernel has not dealt with. (It
  // does so beside its cells: that it is idle says nothing about them.)
  follow(kernel, {direction, msg}) {
    if (direction === 'send' && msg.header.msg_type === 'comm_msg')
      tests.waiting.add(msg.header.msg_id);
    if (msg.header.msg_type === 'status' &&
        msg.content.execution_state === 'idle')
      tests.waiting.delete(msg.parent_header.msg_id);
  },

  // Replace the code of the first cell.
  write: (code) => jupyterapp.shell.currentWidget.content.widgets[0].model
    .sharedModel.setSource(code),

  // The prompts of all cells that hold code.
  prompts: () => tests.all('.jp-CodeCell')
    .filter((cell) => cell.querySelector('.cm-content')?.textContent.trim())
    .map((cell) => cell.querySelector('.jp-InputPrompt').textContent.trim()),

  // Which of the cells that hold code show one line of their output only.
  folded: () => tests.all('.jp-CodeCell').flatMap((cell, number) =>
    cell.querySelector('.jp-OutputPlaceholder') ? [number] : []),

  // What must not be on the page.
  broken: () => tests.all(`
      [data-mime-type="application/vnd.jupyter.stderr"],
      [data-mime-type="application/vnd.jupyter.error"],
      .jupyter-widgets-error-widget, .gpt-error, .jp-Dialog`)
    .map((e) => e.textContent),

  widgetsAreThere: () => !tests.all('.jp-OutputArea-output').some((output) =>
    /Error displaying widget|Loading widget|model not found/
      .test(output.textContent)),

  // The beginning of each picture's address, and whether it can be seen.
  pictures: (query) => tests.all(query)
    .filter((image) => !image.hidden)
    .map((image) => [
      image.src.slice(0, 80), image.complete && image.naturalWidth > 0]),

  // From here on, `tests.focused` gets each control that has the focus.
  collectFocused(explorer) {
    tests.focused = new Set();
    explorer.addEventListener(
      'focusin', (event) => { tests.focused.add(event.target); });
  },

  async look(explorer) {
    const image = explorer.querySelector('img.widget-image');
    await image.decode();
    const bytes = await (await fetch(image.src)).arrayBuffer();
    const hash = await crypto.subtle.digest('SHA-1', bytes);
    const has = (query) => explorer.querySelector(query) !== null;
    const grey = getComputedStyle(image).opacity < 0.5;
    return {
      // A grey picture is one from earlier on.
      picture: grey ? 'grey' : [...new Uint8Array(hash)].join(' '),
      words: explorer.querySelector('.gpt-words').textContent,
      impossible: has('.gpt-impossible'),
      error: has('.gpt-error') };
  },

  // What an explorer shows once the kernel has no more to say. A control
  // sends its next value when the kernel is done with the last one: so the
  // picture must stay for some frames.
  async shown(explorer) {
    const end = performance.now() + 30_000;
    let last, same = 0;
    while (same < 4) {
      if (performance.now() > end)
        throw new Error(`not done: ${JSON.stringify(last)}`);
      await new Promise(requestAnimationFrame);
      // Fails if a new picture comes in between.
      const now = await tests.look(explorer).catch(() => null);
      const stays = now && tests.waiting.size === 0
        && JSON.stringify(now) === JSON.stringify(last);
      same = stays ? same + 1 : 0;
      last = now;
    }
    return last;
  },

  // From here on, `tests.times` gets the milliseconds from each key press
  // to the new picture.
  time(explorer) {
    const image = explorer.querySelector('img.widget-image');
    let pressed;
    tests.times = [];
    document.addEventListener(
      'keydown', () => { pressed = performance.now(); }, true);
    image.addEventListener(
      'load', () => { tests.times.push(performance.now() - pressed); });
  },

  async violations() {
    // JupyterLab's body is 0 pixels high and hides what overflows. Browsers
    // take that for the window's, but axe would call every text invisible.
    document.body.style.overflow = 'visible';
    const series = {include: [['.jp-RenderedMarkdown'],
                              ['.jp-OutputArea-output']]};
    const found = await axe.run(series, {resultTypes: ['violations']});
    return found.violations.flatMap((rule) => rule.nodes.map((node) => ({
      rule: rule.id, impact: node.impact ?? rule.impact,
      html: node.html.slice(0, 200),
      why: node.failureSummary, where: node.target.join(' ') })));
  },
};
