/**
 * Fills a template with values. They are only looked up among what is given, never along prototypes, and never read as a
 * template again. Work and output are bounded, whatever the template.
 */
import { messageErrors } from '../../errors.ts';
import type { Expression, Node, Path } from './nodes.ts';

/** Values are escaped in `html`, and put as they are in `plain`. */
export type Format = 'html' | 'plain';

/** Rounds of all loops of one text together, steps, and characters that it may become. */
const maxRounds = 10_000;
const maxSteps = 300_000;
const maxOutput = 1_000_000;
const maxPartials = 20;

/** What names are looked up in: a value, what a loop says about it, names that a block gives, and what stands around it. */
interface Scope {
  readonly value: unknown;
  readonly loop: Readonly<Record<string, unknown>>;
  readonly locals?: ReadonlyMap<string, unknown>;
  readonly outer?: Scope | undefined;
  /** What a user of this partial has put into it, and where that looks. */
  readonly slot?: { readonly nodes: readonly Node[]; readonly scope: Scope } | undefined;
}

export type Partials = ReadonlyMap<string, readonly Node[]>;

/** How far one rendering has come. */
interface Progress {
  readonly format: Format;
  readonly partials: Partials;
  readonly missing: 'empty' | 'refused';
  rounds: number;
  steps: number;
  size: number;
  depth: number;
}

export interface Rendering {
  readonly format: Format;
  readonly partials: Partials;
  /** Whether a variable that is not there is an error. */
  readonly strict?: boolean | undefined;
}

/** Throws TEMPLATE_INVALID for what becomes too large, and for partials that are not there. */
export function render(
  nodes: readonly Node[],
  variables: Readonly<Record<string, unknown>>,
  { format, partials, strict = false }: Rendering,
): string {
  const missing = strict ? 'refused' : 'empty';
  const progress = { format, partials, missing, rounds: 0, steps: 0, size: 0, depth: 0 } as const;
  return renderNodes(nodes, { value: variables, loop: {} }, { ...progress });
}

const refused = (what: string) =>
  messageErrors.TEMPLATE_INVALID({ message: `The template ${what}` });

function renderNodes(nodes: readonly Node[], scope: Scope, progress: Progress): string {
  let text = '';
  for (const node of nodes) {
    progress.steps += 1;
    if (progress.steps > maxSteps) throw refused(`takes more than ${maxSteps} steps`);
    text += renderNode(node, scope, progress);
  }
  return text;
}

const tooLong = () => refused('becomes too long with these variables');

const written = (text: string, progress: Progress): string => {
  progress.size += text.length;
  if (progress.size > maxOutput) throw tooLong();
  return text;
};

function renderNode(node: Node, scope: Scope, progress: Progress): string {
  switch (node.kind) {
    case 'text':
      return written(node.text, progress);
    case 'value':
      return written(valueText(node, scope, progress), progress);
    case 'slot':
      return inPartial(progress, () =>
        scope.slot ? renderNodes(scope.slot.nodes, scope.slot.scope, progress) : '',
      );
    case 'partial':
      return partialText(node, scope, progress);
    default:
      return blockText(node, scope, progress);
  }
}

type NodeOf<K extends Node['kind']> = Extract<Node, { readonly kind: K }>;

function valueText(
  { of, raw, address }: NodeOf<'value'>,
  scope: Scope,
  progress: Progress,
): string {
  const { format, missing } = progress;
  const value = evaluate(of, scope);
  if (value === undefined && missing === 'refused') throw refused(`needs ${nameOf(of)}`);
  const text = textOf(value);
  // Escaping makes it longer, and takes time and memory for each character.
  if (progress.size + text.length > maxOutput) throw tooLong();
  if (format === 'plain' || raw) return text;
  return escapeHtml(address && isProgram(text) ? '#' : text);
}

const nameOf = (of: Expression): string =>
  of.kind === 'path' ? of.names.join('.') || 'this' : 'a value';

/** Browsers leave out control characters and spaces before they look. */
const isProgram = (address: string): boolean =>
  /^(?:javascript|vbscript|data):/i.test(address.slice(0, 200).replace(/[\p{Cc}\s]+/gu, ''));

function blockText(
  node: NodeOf<'choice' | 'each' | 'with'>,
  scope: Scope,
  progress: Progress,
): string {
  const value = evaluate(node.of, scope);
  const rounds = isPresent(value) ? roundsOf(node, value) : 0;
  if (rounds === 0) return renderNodes(node.falsy, scope, progress);
  progress.rounds += rounds;
  if (progress.rounds > maxRounds) throw refused(`has loops of more than ${maxRounds} rounds`);
  const inner = innerScopes(node, value, scope);
  let text = '';
  for (const one of inner) text += renderNodes(node.truthy, one, progress);
  return text;
}

function roundsOf({ kind }: NodeOf<'choice' | 'each' | 'with'>, value: unknown): number {
  if (kind !== 'each') return 1;
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}

/** One for each round: an entry of a list, or a member of an object. */
function innerScopes(
  { kind, names }: NodeOf<'choice' | 'each' | 'with'>,
  value: unknown,
  outer: Scope,
): readonly Scope[] {
  const { slot } = outer;
  const [entryName, keyName] = names;
  const localsOf = (entry: unknown, key: unknown): ReadonlyMap<string, unknown> =>
    new Map([
      ...(entryName === undefined ? [] : [[entryName, entry] as const]),
      ...(keyName === undefined ? [] : [[keyName, key] as const]),
    ]);
  if (kind === 'choice') return [outer];
  if (kind === 'with')
    return [{ value, loop: {}, locals: localsOf(value, undefined), outer, slot }];
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
    locals: localsOf(entry, Array.isArray(value) ? index : key),
    outer,
    slot,
  }));
}

function inPartial(progress: Progress, work: () => string): string {
  if (progress.depth >= maxPartials)
    throw refused(`has partials within each other, deeper than ${maxPartials}`);
  progress.depth += 1;
  const text = work();
  progress.depth -= 1;
  return text;
}

function partialText(
  { name, of, given, block }: NodeOf<'partial'>,
  scope: Scope,
  progress: Progress,
): string {
  const nodes = progress.partials.get(name);
  if (!nodes) {
    // What stands inside is there for this.
    if (block) return renderNodes(block, scope, progress);
    throw refused(`needs the partial ${name}, which is not there`);
  }
  const inner: Scope = {
    value: of === undefined ? scope.value : evaluate(of, scope),
    loop: scope.loop,
    locals: new Map([
      ...(of === undefined ? (scope.locals ?? []) : []),
      ...given.map(([key, value]) => [key, evaluate(value, scope)] as const),
    ]),
    slot: block && { nodes: block, scope },
  };
  return inPartial(progress, () => renderNodes(nodes, inner, progress));
}

function evaluate(of: Expression, scope: Scope): unknown {
  if (of.kind === 'literal') return of.value;
  if (of.kind === 'path') return lookUp(scope, of);
  const key = evaluate(of.key, scope);
  return member(evaluate(of.of, scope), typeof key === 'number' ? String(key) : key);
}

function lookUp(scope: Scope, { up, own, names }: Path): unknown {
  let at: Scope | undefined = scope;
  for (let left = up; left > 0; left -= 1) at = at?.outer;
  if (!at) return undefined;
  const [first] = names;
  if (first?.startsWith('@')) return at.loop[first];
  const local = own || first === undefined ? undefined : localOf(at, first);
  let value = local ? local.value : at.value;
  for (const name of local ? names.slice(1) : names) value = member(value, name);
  return value;
}

/** A name that a block around gives: found from inside out. */
function localOf(scope: Scope, name: string): { readonly value: unknown } | undefined {
  for (let at: Scope | undefined = scope; at; at = at.outer)
    if (at.locals?.has(name)) return { value: at.locals.get(name) };
  return undefined;
}

const member = (value: unknown, name: unknown): unknown =>
  typeof value === 'object' &&
  value !== null &&
  typeof name === 'string' &&
  Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined;

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
