/**
 * The language of templates: `{{name}}` (escaped in HTML), `{{{name}}}` (as it is), dotted paths,
 * `{{#if name}} .. {{else}} .. {{/if}}`, `{{#unless name}}`, and comments `{{! .. }}`. Values are only
 * looked up among the given variables, never along prototypes, and are never read as a template again.
 */
import { cutText } from '../../../kernel/text.ts';
import { messageErrors } from '../errors.ts';
export type Variables = Readonly<Record<string, unknown>>;

type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'value'; readonly path: readonly string[]; readonly raw: boolean }
  | { readonly kind: 'choice'; readonly path: readonly string[]; readonly truthy: readonly Node[]; readonly falsy: readonly Node[] };

export interface Template {
  /** Top-level names of the variables it uses, in order. */
  readonly variables: readonly string[];
  /** `html`: values are escaped. A missing value is empty. */
  render(variables: Variables, format: 'html' | 'plain'): string;
}

/** Thrown by `parseTemplate`; the message says where. */
export class TemplateError extends Error {}

const tag = /\{\{\{([^{}]*)\}\}\}|\{\{([^{}]*)\}\}/g;
const pathShape = /^[A-Za-z_][\w-]*(?:\.[\w-]+){0,9}$/;
const maxDepth = 20;

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
    render: (variables, format) => renderNodes(nodes, variables, format),
  };
}

interface Block {
  readonly name: 'if' | 'unless' | undefined;
  readonly path: readonly string[];
  /** What stands before `{{else}}`, and after it. */
  readonly before: Node[];
  after: Node[] | undefined;
}

function createParser() {
  const open: Block[] = [{ name: undefined, path: [], before: [], after: undefined }];
  const top = (): Block => open.at(-1) as Block;
  const add = (node: Node): void => void (top().after ?? top().before).push(node);

  const close = (name: string): void => {
    const block = open.pop();
    if (!block?.name || block.name !== name) throw new TemplateError(`{{/${name}}} closes nothing`);
    const [before, after] = [block.before, block.after ?? []];
    add({ kind: 'choice', path: block.path, ...(name === 'if' ? { truthy: before, falsy: after } : { truthy: after, falsy: before }) });
  };
  const begin = (name: string, path: string): void => {
    if (name !== 'if' && name !== 'unless') throw new TemplateError(`{{#${name}}} is not known: there are #if and #unless`);
    if (open.length > maxDepth) throw new TemplateError(`blocks are nested deeper than ${maxDepth}`);
    open.push({ name, path: pathOf(path), before: [], after: undefined });
  };
  const turn = (): void => {
    if (!top().name || top().after) throw new TemplateError('{{else}} stands outside of a block');
    top().after = [];
  };
  const value = (path: string, raw: boolean): void => add({ kind: 'value', path: pathOf(path), raw });

  return {
    text: (text: string): void => {
      if (text !== '') add({ kind: 'text', text });
    },
    value,
    tag(inside: string): void {
      const block = /^#\s*(\w+)\s+(\S+)$/.exec(inside);
      if (inside.startsWith('!')) return;
      if (inside.startsWith('/')) close(inside.slice(1).trim());
      else if (inside === 'else') turn();
      else if (block) begin(block[1] ?? '', block[2] ?? '');
      else if (inside.startsWith('&')) value(inside.slice(1).trim(), true);
      else value(inside, false);
    },
    finish(): readonly Node[] {
      if (open.length > 1) throw new TemplateError(`{{#${top().name}}} is not closed`);
      return top().before;
    },
  };
}

function pathOf(text: string): readonly string[] {
  if (!pathShape.test(text)) throw new TemplateError(`{{${cutText(text, 60)}}} is not the name of a variable`);
  return text.split('.');
}

const namesIn = (nodes: readonly Node[]): readonly string[] =>
  nodes.flatMap((node) => {
    if (node.kind === 'text') return [];
    const name = node.path[0] ?? '';
    return node.kind === 'value' ? [name] : [name, ...namesIn(node.truthy), ...namesIn(node.falsy)];
  });

const renderNodes = (nodes: readonly Node[], variables: Variables, format: 'html' | 'plain'): string =>
  nodes.map((node) => renderNode(node, variables, format)).join('');

function renderNode(node: Node, variables: Variables, format: 'html' | 'plain'): string {
  if (node.kind === 'text') return node.text;
  const value = lookUp(variables, node.path);
  if (node.kind === 'choice') return renderNodes(isPresent(value) ? node.truthy : node.falsy, variables, format);
  const text = textOf(value);
  return format === 'html' && !node.raw ? escapeHtml(text) : text;
}

function lookUp(variables: Variables, path: readonly string[]): unknown {
  let value: unknown = variables;
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = Reflect.get(value, name);
  }
  return value;
}

const isPresent = (value: unknown): boolean => (Array.isArray(value) ? value.length > 0 : Boolean(value));

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const entities = new Map(
  Object.entries({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#x27;', '`': '&#x60;', '=': '&#x3D;' }),
);

const escapeHtml = (text: string): string => text.replace(/[&<>"'`=]/g, (character) => entities.get(character) ?? character);

/* Templates out of requests: what cannot be read is 400 and names the field. */

/** Throws INVALID_TEMPLATE. */
export function parsePart(path: 'subject' | 'body', text: string): Template {
  try {
    return parseTemplate(text);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    const { message } = error;
    throw messageErrors.INVALID_TEMPLATE({ message: `${path}: ${message}`, errors: [{ path, rule: 'template', message }] });
  }
}
