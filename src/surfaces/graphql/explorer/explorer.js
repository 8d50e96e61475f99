/** The explorer's behaviour. Everything from the server is set as text, never as markup. */
const byId = (id) => document.getElementById(id);
const typeReference = 'kind name ofType { kind name ofType { kind name ofType { kind name } } }';
const schemaQuery = `{ __schema { queryType { name } mutationType { name } types { kind name description
  fields { name description args { name description defaultValue type { ${typeReference} } } type { ${typeReference} } }
  inputFields { name description type { ${typeReference} } } } } }`;

const types = new Map();

function readJson(id, what) {
  const text = byId(id).value.trim();
  if (text === '') return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what}: ${error.message}`);
  }
}

function headersToSend() {
  const given = Object.entries(readJson('headers', 'Headers')).filter(([, value]) => value !== '');
  return {
    ...Object.fromEntries(given),
    'content-type': 'application/json',
    accept: 'application/graphql-response+json',
  };
}

const send = (body) =>
  fetch('/graphql', { method: 'POST', headers: headersToSend(), body: JSON.stringify(body) });

async function run() {
  const begin = performance.now();
  byId('status').textContent = 'Running';
  try {
    const response = await send({
      query: byId('query').value,
      variables: readJson('variables', 'Variables'),
    });
    const text = await response.text();
    byId('status').textContent = `${response.status}, ${Math.round(performance.now() - begin)} ms`;
    byId('result').textContent = pretty(text);
  } catch (error) {
    byId('status').textContent = 'Not sent';
    byId('result').textContent = error.message;
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

const typeText = ({ kind, name, ofType }) => {
  if (kind === 'NON_NULL') return `${typeText(ofType)}!`;
  return kind === 'LIST' ? `[${typeText(ofType)}]` : (name ?? '');
};
const innermost = (type) => (type.ofType ? innermost(type.ofType) : type);

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function typeLink(type) {
  const button = element('button', typeText(type));
  button.type = 'button';
  button.addEventListener('click', () => show(innermost(type).name));
  return button;
}

function entry({ name, description, args = [], type }) {
  const title = element('dt', `${name}: `, typeLink(type));
  const inputs = args.map((arg) => element('dd', `${arg.name}: `, typeLink(arg.type)));
  return [title, ...inputs, ...(description ? [element('dd', description)] : [])];
}

function show(name) {
  const type = types.get(name);
  if (!type) return;
  const top = element('button', 'All types');
  top.type = 'button';
  top.addEventListener('click', list);
  byId('trail').replaceChildren(top);
  const entries = (type.fields ?? type.inputFields ?? []).flatMap(entry);
  byId('docs').replaceChildren(
    element('h3', name),
    element('p', type.description ?? ''),
    element('dl', '', ...entries),
  );
}

function list() {
  const requested = byId('search').value.trim().toLowerCase();
  const matches = ({ name, fields }) =>
    !name.startsWith('__') &&
    (name.toLowerCase().includes(requested) ||
      (requested !== '' && fields?.some((field) => field.name.toLowerCase().includes(requested))));
  const found = [...types.values()].filter(matches).slice(0, 200);
  byId('trail').replaceChildren();
  byId('docs').replaceChildren(...found.map((type) => element('p', '', typeLink(type))));
}

async function loadSchema() {
  try {
    const { data, errors } = await (await send({ query: schemaQuery })).json();
    if (!data) throw new Error(errors?.[0]?.message ?? 'The schema cannot be read');
    for (const type of data.__schema.types) types.set(type.name, type);
    show(data.__schema.queryType.name);
  } catch (error) {
    byId('docs').replaceChildren(element('p', error.message));
  }
}

byId('query').value = 'query {\n  __typename\n}\n';
byId('run').addEventListener('click', run);
byId('search').addEventListener('input', list);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run();
});
loadSchema();
