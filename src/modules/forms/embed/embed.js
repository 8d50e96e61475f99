/*
 * Shows forms in pages: every element with `data-penstock-form` gets the form of that id. It needs `script-src` and
 * `connect-src` for the address it comes from, and nothing else of a content security policy: it sets no inline
 * styles, runs no text, and builds every element by name.
 */

const base = new URL('.', import.meta.url).href.replace(/\/forms\/$/, '');

/* SHA-256 (FIPS 180-4) of short ASCII texts, for pages that are not served over TLS too. */

const primes = [];
for (let n = 2; primes.length < 64; n += 1) if (primes.every((p) => n % p)) primes.push(n);
const fraction = (x) => ((x - Math.floor(x)) * 0x100000000) | 0;
const start = primes.slice(0, 8).map((p) => fraction(p ** (1 / 2)));
const constants = primes.map((p) => fraction(p ** (1 / 3)));
const turn = (x, by) => (x >>> by) | (x << (32 - by));
const words = new Int32Array(64);

/** The first 32 bits of the hash of a text of at most 55 characters. */
function firstBits(text) {
  words.fill(0);
  for (let i = 0; i < text.length; i += 1)
    words[i >> 2] |= text.charCodeAt(i) << (24 - (i % 4) * 8);
  words[text.length >> 2] |= 0x80 << (24 - (text.length % 4) * 8);
  words[15] = text.length * 8;
  for (let i = 16; i < 64; i += 1) {
    const x = words[i - 15];
    const y = words[i - 2];
    words[i] =
      words[i - 16] +
      (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) +
      words[i - 7] +
      (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
  }
  let [a, b, c, d, e, f, g, h] = start;
  for (let i = 0; i < 64; i += 1) {
    const one =
      (h +
        (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
        ((e & f) ^ (~e & g)) +
        constants[i] +
        words[i]) |
      0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  return (start[0] + a) >>> 0;
}

/** Looks for a solution in short turns, so that the page stays alive. */
async function solve({ puzzle, difficulty }) {
  for (let n = 0; ; n += 1) {
    if (firstBits(`${puzzle}:${n}`) >>> (32 - difficulty) === 0) return String(n);
    if (n % 2000 === 1999) await new Promise((resolve) => setTimeout(resolve));
  }
}

const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

const kinds = {
  number: 'number',
  date: 'date',
  email: 'email',
  url: 'url',
  phone: 'tel',
  file: 'file',
  checkbox: 'checkbox',
};

function inputOf(field, id) {
  const common = { id, name: field.name, required: field.required };
  if (field.type === 'textarea')
    return element('textarea', { ...common, rows: 5, ...texts(field) });
  if (field.type === 'select') {
    const empty = field.multiple
      ? []
      : [element('option', { value: '', textContent: field.placeholder ?? '' })];
    const options = field.options.map((value) => element('option', { value, textContent: value }));
    return element(
      'select',
      { ...common, multiple: field.multiple === true },
      ...empty,
      ...options,
    );
  }
  const type = kinds[field.type] ?? 'text';
  const input = element('input', { ...common, type, ...texts(field) });
  if (type === 'number') input.step = field.integer ? '1' : 'any';
  if (type === 'file') {
    input.multiple = field.multiple === true;
    input.accept = (field.mimeTypes ?? []).join(',');
  }
  for (const rule of ['min', 'max'])
    if (field[rule] !== undefined) input[rule] = String(field[rule]);
  return input;
}

function texts({ placeholder, minLength, maxLength }) {
  const said = { placeholder, minLength, maxLength };
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
}

function preset(input, { type, default: value }) {
  if (value === undefined) return;
  if (type === 'checkbox') input.checked = value === true || value === 'on' || value === 'true';
  else input.value = String(value);
}

let count = 0;

function rowOf(field) {
  count += 1;
  const id = `penstock-field-${count}`;
  const input = inputOf(field, id);
  preset(input, field);
  const problem = element('span', { id: `${id}-problem`, className: 'penstock-problem' });
  input.setAttribute('aria-describedby', problem.id);
  const label = element('label', { htmlFor: id, textContent: field.label ?? field.name });
  if (field.required)
    label.append(element('span', { className: 'penstock-required', textContent: ' *' }));
  const parts = field.type === 'checkbox' ? [input, label] : [label, input];
  const row = element(
    'div',
    { className: `penstock-row penstock-${field.type}` },
    ...parts,
    problem,
  );
  return { field, input, problem, row };
}

/** People do not see it, and keyboards pass it by. */
function trapOf(name) {
  const input = element('input', { name, type: 'text', tabIndex: -1, autocomplete: 'off' });
  const trap = element('div', { ariaHidden: 'true' }, input);
  for (const [property, value] of Object.entries({
    position: 'absolute',
    left: '-10000px',
    height: '1px',
    overflow: 'hidden',
  }))
    trap.style.setProperty(property, value);
  return trap;
}

const ask = async (path, options = {}) => {
  const response = await fetch(base + path, { credentials: 'same-origin', ...options });
  const body = await response.json().catch(() => ({}));
  return { ok: response.ok, status: response.status, body };
};

function fieldValue({ field, input }) {
  if (field.type === 'checkbox') return input.checked;
  if (field.type !== 'select' || !field.multiple) return input.value;
  return [...input.selectedOptions].map(({ value }) => value);
}

/** What captcha widgets inside of the place have put into it. */
const captchaNames = [
  'captchaToken',
  'g-recaptcha-response',
  'h-captcha-response',
  'cf-turnstile-response',
];

function valuesOf({ rows, definition, form }, further) {
  const values = { ...further };
  for (const row of rows) if (row.field.type !== 'file') values[row.field.name] = fieldValue(row);
  // A field may have the name of a property of forms, and stands in its place then.
  const entered = new FormData(form);
  for (const name of [definition.honeypotField, ...captchaNames]) {
    const value = name && entered.get(name);
    if (value && !(name in values)) values[name] = value;
  }
  return values;
}

/** JSON, or a form where there are files to send. */
function contentOf(view, further) {
  const values = valuesOf(view, further);
  const files = view.rows
    .filter(({ field }) => field.type === 'file')
    .flatMap(({ field, input }) => [...input.files].map((file) => [field.name, file]));
  if (files.length === 0)
    return { body: JSON.stringify(values), headers: { 'content-type': 'application/json' } };
  const body = new FormData();
  for (const [name, value] of Object.entries(values))
    for (const one of [value].flat()) body.append(name, String(one));
  for (const [name, file] of files) body.append(name, file);
  return { body, headers: {} };
}

function tell(view, text, isProblem) {
  view.status.textContent = text;
  view.status.className = isProblem ? 'penstock-status penstock-failed' : 'penstock-status';
}

function tellProblems(view, problems = []) {
  for (const { field, input, problem } of view.rows) {
    const found = problems.find((one) => (one.field ?? one.path) === field.name);
    problem.textContent = found ? found.message : '';
    if (found) input.setAttribute('aria-invalid', 'true');
    else input.removeAttribute('aria-invalid');
  }
  view.rows.find(({ problem }) => problem.textContent !== '')?.input.focus();
}

const challengeFor = ({ id, headers }) =>
  ask(`/forms/${id}/challenge`, { headers }).then(({ ok, body }) => (ok ? body : undefined));

async function send(view) {
  const { id, key } = view;
  if (view.challenge && Date.parse(view.challenge.expiresAt) < Date.now() + 60_000)
    view.challenge = await challengeFor(view);
  const proof = view.challenge && {
    _challenge: view.challenge.challenge,
    _solution: await solve(view.challenge),
  };
  const { body, headers } = contentOf(view, proof);
  return ask(`/forms/submit/${id}`, {
    method: 'POST',
    body,
    headers: { ...headers, ...view.headers, accept: 'application/json', 'idempotency-key': key },
  });
}

async function submit(view) {
  view.button.disabled = true;
  tellProblems(view);
  tell(view, '…', false);
  try {
    let answer = await send(view);
    if (answer.body.code === 'FORM_CHALLENGE_FAILED') {
      view.challenge = await challengeFor(view);
      answer = await send(view);
    }
    finish(view, answer);
  } catch {
    tell(view, 'This could not be sent. Try again.', true);
  }
  view.button.disabled = false;
}

function finish(view, { ok, status, body }) {
  if (ok) {
    const done = new CustomEvent('penstock:submitted', {
      bubbles: true,
      cancelable: true,
      detail: body,
    });
    if (!view.place.dispatchEvent(done)) return;
    if (body.redirectUrl) location.assign(body.redirectUrl);
    else {
      view.form.replaceChildren(view.status);
      tell(view, body.message, false);
    }
    return;
  }
  // What is sent after a refusal is another submission.
  if (status < 500) view.key = newKey();
  if (body.errors) tellProblems(view, body.errors);
  tell(
    view,
    body.errors ? '' : (body.message ?? 'This could not be sent. Try again.'),
    !body.errors,
  );
}

const newKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');

async function show(place) {
  const id = place.dataset.penstockForm;
  const headers = place.dataset.clientId ? { clientid: place.dataset.clientId } : {};
  const { ok, body: definition } = await ask(`/forms/${encodeURIComponent(id)}`, { headers });
  if (!ok) return;
  const rows = definition.fields.map(rowOf);
  const button = element('button', {
    type: 'submit',
    textContent: place.dataset.submit ?? 'Send',
  });
  const status = element('p', { className: 'penstock-status', role: 'status' });
  // What the page has put into the place, such as a captcha, stands before the button.
  const own = [...place.childNodes];
  const trap = definition.honeypotField ? [trapOf(definition.honeypotField)] : [];
  const form = element(
    'form',
    { className: 'penstock-form', noValidate: false },
    ...rows.map(({ row }) => row),
    ...trap,
    ...own,
    button,
    status,
  );
  form.setAttribute('aria-label', definition.name);
  const view = { id, place, definition, rows, form, button, status, headers, key: newKey() };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    submit(view);
  });
  place.replaceChildren(form);
  view.challenge = await challengeFor(view);
}

/** A plain look, which the rules of the page win over. */
function dress() {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`
      :where(.penstock-form) { display: grid; gap: 1rem; max-width: 32rem; font: inherit }
      :where(.penstock-row) { display: grid; gap: .3rem }
      :where(.penstock-checkbox) { grid-template-columns: auto 1fr; align-items: center; justify-items: start }
      :where(.penstock-form) :where(input:not([type=checkbox]), textarea, select) { font: inherit; padding: .5rem; border: 1px solid #8a94a0; border-radius: .3rem; width: 100%; box-sizing: border-box }
      :where(.penstock-form) :where([aria-invalid]) { border-color: #b3261e }
      :where(.penstock-form) :where(button) { font: inherit; padding: .6rem 1.4rem; justify-self: start }
      :where(.penstock-problem, .penstock-failed) { color: #b3261e; font-size: .9em }
      :where(.penstock-problem:empty, .penstock-status:empty) { display: none }
      :where(.penstock-status) { margin: 0 }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

function begin() {
  dress();
  for (const place of document.querySelectorAll('[data-penstock-form]'))
    show(place).catch(() => undefined);
}

// Modules run when the page is read.
begin();
