// What ipywidgets leaves out: names for a screen reader, and arrow keys that
// move a slider and not the notebook.

const row = (part) =>
  part.closest('.widget-inline-hbox, .widget-toggle-buttons');

function name(part) {
  part.ariaLabel = row(part).querySelector('.widget-label').textContent;
}

// Say a slider's value as its read-out shows it.
function tell(handle) {
  const readout = row(handle).querySelector('.widget-readout');
  const say = () => { handle.ariaValueText = readout.textContent; };
  new MutationObserver(say).observe(readout, {childList: true});
  say();
}

function prepare(box) {
  const all = (query) => box.querySelectorAll(query);
  for (const handle of all('.noUi-handle:not([aria-label])')) {
    name(handle);
    tell(handle);
    handle.dataset.lmSuppressShortcuts = true;  // JupyterLab's own keys
  }
  for (const readout of all('.widget-readout:not([role])')) {
    readout.role = 'textbox';
    name(readout);
  }
  for (const buttons of all('.widget-toggle-buttons:not([role])')) {
    buttons.role = 'group';
    name(buttons);
  }
  for (const words of all('.gpt-words .widget-html-content:not([role])'))
    words.role = 'status';  // read aloud when it changes
}

function render({el}) {
  let box;
  const observer = new MutationObserver(() => prepare(box));
  let gone = false;
  const begin = () => {
    if (gone) return;
    box = el.closest('.gpt-explorer');
    if (!box) { requestAnimationFrame(begin); return; }
    prepare(box);  // and what is still to come
    observer.observe(box, {childList: true, subtree: true});
  };
  begin();
  return () => { gone = true; observer.disconnect(); };
}

export default {render};
