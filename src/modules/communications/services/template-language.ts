/**
 * The language of templates: `{{name}}` (escaped in HTML), `{{{name}}}` (as it is), dotted paths,
 * `{{#if name}} .. {{else if other}} .. {{else}} .. {{/if}}`, `{{#unless name}}`, `{{#each list}} .. {{else}} .. {{/each}}`
 * (`this`, `@index`, `@key`, `@first`, `@last`, `../name`), `{{#with object}}`, and comments `{{! .. }}`. Values are only
 * looked up among the given variables, never along prototypes, and are never read as a template again.
 */
import { cutText } from '../../../kernel/text.ts';
import { messageErrors } from '../errors.ts';

export type Variables = Readonly<Record<string, unknown>>;

/** Where a value is looked up: so many blocks further out, then along names. `@` values have their own name. */
interface Path {
  readonly up: number;
  readonly names: readonly string[];
}

type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'value'; readonly path: Path; readonly raw: boolean }
  | {
      readonly kind: 'choice' | 'each' | 'with';
      readonly path: Path;
      /** For `choice`: when it is there; for the others: with what is found. */
      readonly truthy: readonly Node[];
      readonly falsy: readonly Node[];
    };

export interface Template {
  /** Top-level names of the variables it uses, in order. */
  readonly variables: readonly string[];
  /** `html`: values are escaped. A missing value is empty. */
  render(variables: Variables, format: 'html' | 'plain'): string;
}

/** Thrown by `parseTemplate`; the message says where. */
export class TemplateError extends Error {}

const tag = /\{\{\{([^{}]*)\}\}\}|\{\{([^{}]*)\}\}/g;
const pathShape =
  /^(?:\.\.\/){0,5}(?:this|@index|@key|@first|@last|(?:this\.)?[A-Za-z_][\w-]*(?:\.[\w-]+){0,9})$/;
const maxDepth = 20;
/** Rounds of all loops of one text together, and characters that it may become. */
const maxRounds = 10_000;
const maxOutput = 1_000_000;

/** @throws TemplateError for tags that are not known, and for blocks that do not match. */
export function parseTemplate(text: string): Template {
  const parser = createParser();
  let end = 0;
  for (const match of text.matchAll(tag)) {
    parser.text(text.slice(end, match.index));
    if (match[1] !== undefined) parser.value(match[1].trim(), true);
    else parser.tag((match[2] ?? '').trim());
    end = match.index + match[0].length;
  }
  parser.text(text.slice(end));
  const nodes = parser.finish();
  return {
    variables: [...new Set(namesIn(nodes))],
    render: (variables, format) =>
      renderNodes(nodes, { value: variables, loop: {} }, { format, rounds: 0, size: 0 }),
  };
}

type BlockName = 'if' | 'unless' | 'each' | 'with';

interface Block {
  readonly name: BlockName | undefined;
  readonly path: Path;
  /** What stands before `{{else}}`, and after it. */
  readonly before: Node[];
  after: Node[] | undefined;
  /** Begun by `{{else if}}`: it closes with the block around it. */
  readonly chained: boolean;
}

const blockNames: ReadonlySet<string> = new Set(['if', 'unless', 'each', 'with']);
const nowhere: Path = { up: 0, names: [] };

function createParser() {
  const open: Block[] = [
    { name: undefined, path: nowhere, before: [], after: undefined, chained: false },
  ];
  const top = (): Block => open.at(-1) as Block;
  const add = (node: Node): void => void (top().after ?? top().before).push(node);

  const close = (name: string): void => {
    const block = open.pop();
    if (!block?.name || (block.name !== name && !block.chained))
      throw new TemplateError(`{{/${name}}} closes nothing`);
    add(nodeOf(block));
    if (block.chained) close(name);
  };
  const begin = (name: string, path: string, chained = false): void => {
    if (!blockNames.has(name))
      throw new TemplateError(`{{#${name}}} is not known: there are #if, #unless, #each and #with`);
    if (open.length > maxDepth)
      throw new TemplateError(`blocks are nested deeper than ${maxDepth}`);
    open.push({
      name: name as BlockName,
      path: pathOf(path),
      before: [],
      after: undefined,
      chained,
    });
  };
  const turn = (): void => {
    if (!top().name || top().after) throw new TemplateError('{{else}} stands outside of a block');
    top().after = [];
  };
  const value = (path: string, raw: boolean): void =>
    add({ kind: 'value', path: pathOf(path), raw });
  const block = (inside: string): boolean => {
    const [, name = '', path = ''] = /^#\s*(\w+)\s+(\S+)$/.exec(inside) ?? [];
    if (name !== '') begin(name, path);
    const [, other = ''] = /^else\s+if\s+(\S+)$/.exec(inside) ?? [];
    if (other !== '') {
      turn();
      begin('if', other, true);
    }
    return name !== '' || other !== '';
  };

  return {
    text: (text: string): void => {
      if (text !== '') add({ kind: 'text', text });
    },
    value,
    tag(inside: string): void {
      if (inside.startsWith('!')) return;
      if (inside.startsWith('/')) close(inside.slice(1).trim());
      else if (inside === 'else') turn();
      else if (block(inside)) return;
      else if (inside.startsWith('&')) value(inside.slice(1).trim(), true);
      else value(inside, false);
    },
    finish(): readonly Node[] {
      if (open.length > 1) throw new TemplateError(`{{#${top().name}}} is not closed`);
      return top().before;
    },
  };
}

function nodeOf({ name, path, before, after = [] }: Block): Node {
  if (name === 'each' || name === 'with') return { kind: name, path, truthy: before, falsy: after };
  const [truthy, falsy] = name === 'if' ? [before, after] : [after, before];
  return { kind: 'choice', path, truthy, falsy };
}

function pathOf(text: string): Path {
  if (!pathShape.test(text))
    throw new TemplateError(`{{${cutText(text, 60)}}} is not the name of a variable`);
  const up = text.split('../').length - 1;
  const names = text.slice(up * '../'.length).split('.');
  return { up, names: names[0] === 'this' ? names.slice(1) : names };
}

/** Names of variables that are looked up outside of loops; `blocks`: how many stand around the nodes. */
const namesIn = (nodes: readonly Node[], blocks = 0): readonly string[] =>
  nodes.flatMap((node) => {
    if (node.kind === 'text') return [];
    const [name = ''] = node.path.names;
    const own = node.path.up === blocks && name !== '' && !name.startsWith('@') ? [name] : [];
    if (node.kind === 'value') return own;
    const inner = node.kind === 'choice' ? blocks : blocks + 1;
    return [...own, ...namesIn(node.truthy, inner), ...namesIn(node.falsy, blocks)];
  });

/** What names are looked up in: a value, what a loop says about it, and what stands around the block. */
interface Scope {
  readonly value: unknown;
  readonly loop: Readonly<Record<string, unknown>>;
  readonly outer?: Scope;
}

/** How far one rendering has come. */
interface Progress {
  readonly format: 'html' | 'plain';
  rounds: number;
  size: number;
}

function renderNodes(nodes: readonly Node[], scope: Scope, progress: Progress): string {
  let text = '';
  for (const node of nodes) text += renderNode(node, scope, progress);
  return text;
}

const written = (text: string, progress: Progress): string => {
  progress.size += text.length;
  if (progress.size > maxOutput) throw tooLarge('becomes too long with these variables');
  return text;
};

const tooLarge = (what: string) =>
  messageErrors.TEMPLATE_INVALID({ message: `The template ${what}` });

function renderNode(node: Node, scope: Scope, progress: Progress): string {
  if (node.kind === 'text') return written(node.text, progress);
  const value = lookUp(scope, node.path);
  if (node.kind === 'value') {
    const text = textOf(value);
    return written(progress.format === 'html' && !node.raw ? escapeHtml(text) : text, progress);
  }
  const inner = isPresent(value) ? innerScopes(node.kind, value, scope) : [];
  if (inner.length === 0) return renderNodes(node.falsy, scope, progress);
  progress.rounds += inner.length;
  if (progress.rounds > maxRounds) throw tooLarge(`has loops of more than ${maxRounds} rounds`);
  let text = '';
  for (const one of inner) text += renderNodes(node.truthy, one, progress);
  return text;
}

/** One for each round: an entry of a list, or a member of an object. */
function innerScopes(kind: 'choice' | 'each' | 'with', value: unknown, outer: Scope): Scope[] {
  if (kind === 'choice') return [outer];
  if (kind === 'with') return [{ value, loop: {}, outer }];
  if (typeof value !== 'object' || value === null) return [];
  const entries = Object.entries(value);
  return entries.map(([key, entry], index) => ({
    value: entry,
    loop: {
      '@index': index,
      '@key': key,
      '@first': index === 0,
      '@last': index === entries.length - 1,
    },
    outer,
  }));
}

function lookUp(scope: Scope, { up, names }: Path): unknown {
  let at: Scope | undefined = scope;
  for (let left = up; left > 0; left -= 1) at = at?.outer;
  if (!at) return undefined;
  const [first] = names;
  if (first?.startsWith('@')) return at.loop[first];
  let value = at.value;
  for (const name of names) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name))
      return undefined;
    value = Reflect.get(value, name);
  }
  return value;
}

const isPresent = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : Boolean(value);

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const entities = new Map(
  Object.entries({
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#x27;',
    '`': '&#x60;',
    '=': '&#x3D;',
  }),
);

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"'`=]/g, (character) => entities.get(character) ?? character);

/* Templates out of requests: what cannot be read is 400 and names the field. */

/** Throws TEMPLATE_INVALID. */
export function parsePart(path: 'subject' | 'body', text: string): Template {
  try {
    return parseTemplate(text);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    const { message } = error;
    throw messageErrors.TEMPLATE_INVALID({
      message: `${path}: ${message}`,
      errors: [{ path, rule: 'template', message }],
    });
  }
}
