/**
 * From the syntax tree of Handlebars' own parser to nodes that are walked through. Handlebars would make a program of
 * the template; here nothing of it ever runs, and what is not known is refused.
 */
import { type AST, parse } from '@handlebars/parser';
import { cutText } from '../../../../kernel/text.ts';
import {
  type Expression,
  maxDepth,
  type Node,
  type Path,
  requireBounded,
  TemplateError,
} from './nodes.ts';

export interface Compiled {
  readonly nodes: readonly Node[];
  /** Top-level names of the variables it uses, in order. */
  readonly variables: readonly string[];
  /** Names of the partials that it uses. */
  readonly partials: readonly string[];
}

/** What is known at a place of the template. */
interface Place {
  /** Blocks around it that look elsewhere. */
  readonly blocks: number;
  readonly depth: number;
  /** Names that blocks give. */
  readonly locals: ReadonlySet<string>;
  /** The text just before it. */
  readonly before: string;
}

interface Found {
  readonly variables: Set<string>;
  readonly partials: Set<string>;
}

/** @throws TemplateError */
export function compileTemplate(text: string): Compiled {
  requireBounded(text);
  const found: Found = { variables: new Set(), partials: new Set() };
  const start: Place = { blocks: 0, depth: 0, locals: new Set(), before: '' };
  const nodes = nodesOf(programOf(text), start, found);
  return { nodes, variables: [...found.variables], partials: [...found.partials] };
}

function programOf(text: string): AST.Program {
  try {
    return parse(text);
  } catch (error) {
    const [where = '', ...rest] = (error instanceof Error ? error.message : '').split('\n');
    // Its last line tells what it expected, by names of its own.
    const near = rest[0] === undefined ? '' : `: ${cutText(rest[0].trim(), 80)}`;
    throw new TemplateError(`${cutText(where.replace(/:$/, ''), 200)}${near}`);
  }
}

const addressBegins = /(?:href|src|action|formaction|background)\s{0,20}=\s{0,20}["']?\s{0,20}$/i;

function nodesOf(program: AST.Program | undefined, place: Place, found: Found): readonly Node[] {
  if (!program) return [];
  if (place.depth > maxDepth) throw new TemplateError(`blocks are nested deeper than ${maxDepth}`);
  const nodes: Node[] = [];
  let { before } = place;
  for (const statement of program.body) {
    nodes.push(...nodeOf(statement, { ...place, before }, found));
    before = statement.type === 'ContentStatement' ? textOf(statement).slice(-60) : '';
  }
  return nodes;
}

const textOf = (statement: AST.Statement): string => (statement as AST.ContentStatement).value;

function nodeOf(statement: AST.Statement, place: Place, found: Found): readonly Node[] {
  switch (statement.type) {
    case 'ContentStatement':
      return textOf(statement) === '' ? [] : [{ kind: 'text', text: textOf(statement) }];
    case 'CommentStatement':
      return [];
    case 'MustacheStatement':
      return [mustacheOf(statement as AST.MustacheStatement, place, found)];
    case 'BlockStatement':
      return [blockOf(statement as AST.BlockStatement, place, found)];
    case 'PartialStatement':
    case 'PartialBlockStatement':
      return [partialOf(statement as AST.PartialBlockStatement, place, found)];
    default:
      throw new TemplateError(`a ${statement.type} is not known`);
  }
}

function mustacheOf(
  { path, params, hash, escaped }: AST.MustacheStatement,
  place: Place,
  found: Found,
): Node {
  const of =
    params.length > 0 || hash
      ? callOf({ path, params, hash }, place, found)
      : expressionOf(path, place, found);
  return { kind: 'value', of, raw: !escaped, address: addressBegins.test(place.before) };
}

const kinds: ReadonlyMap<string, 'choice' | 'each' | 'with'> = new Map([
  ['if', 'choice'],
  ['unless', 'choice'],
  ['each', 'each'],
  ['with', 'with'],
]);

function blockOf(block: AST.BlockStatement, place: Place, found: Found): Node {
  const name = String(block.path.original);
  const kind = kinds.get(name);
  const [subject, ...more] = block.params;
  if (kind === undefined)
    throw new TemplateError(
      `{{#${cutText(name, 40)}}} is not known: there are #if, #unless, #each and #with`,
    );
  if (subject === undefined || more.length > 0 || block.hash)
    throw new TemplateError(`{{#${name}}} needs one value`);
  const of = expressionOf(subject, place, found);
  const names = block.program?.blockParams ?? [];
  const inside: Place = {
    ...place,
    depth: place.depth + 1,
    blocks: kind === 'choice' ? place.blocks : place.blocks + 1,
    locals: names.length === 0 ? place.locals : new Set([...place.locals, ...names]),
  };
  const main = nodesOf(block.program, inside, found);
  const other = nodesOf(block.inverse, { ...place, depth: place.depth + 1 }, found);
  const [truthy, falsy] = name === 'unless' ? [other, main] : [main, other];
  return { kind, of, names, truthy, falsy };
}

const partialName = /^[A-Za-z][\w-]{0,99}$/;

function partialOf(
  { name, params, hash, program }: AST.PartialBlockStatement,
  place: Place,
  found: Found,
): Node {
  const original =
    name.type === 'PathExpression' ? String((name as AST.PathExpression).original) : '';
  if (original === '@partial-block') return { kind: 'slot' };
  if (!partialName.test(original))
    throw new TemplateError(`{{> ${cutText(original, 40)}}} is not the name of a partial`);
  found.partials.add(original);
  const [subject, ...more] = params;
  if (more.length > 0) throw new TemplateError(`{{> ${original}}} takes one value`);
  return {
    kind: 'partial',
    name: original,
    of: subject === undefined ? undefined : expressionOf(subject, place, found),
    given: ((hash?.pairs ?? []) as readonly AST.HashPair[]).map(({ key, value }) => [
      key,
      expressionOf(value, place, found),
    ]),
    block: program && nodesOf(program, { ...place, depth: place.depth + 1, before: '' }, found),
  };
}

type Callee = Pick<AST.SubExpression, 'params' | 'hash'> & { readonly path: AST.Node };

/** `lookup` is the only one that is called. */
function callOf({ path, params, hash }: Callee, place: Place, found: Found): Expression {
  const name = path.type === 'PathExpression' ? String((path as AST.PathExpression).original) : '';
  const [of, key, ...more] = params;
  if (name !== 'lookup' || of === undefined || key === undefined || more.length > 0 || hash)
    throw new TemplateError(`{{${cutText(name, 40)} ...}} is not the name of a variable`);
  return {
    kind: 'lookup',
    of: expressionOf(of, place, found),
    key: expressionOf(key, place, found),
  };
}

function expressionOf(node: AST.Node, place: Place, found: Found): Expression {
  switch (node.type) {
    case 'PathExpression':
      return pathOf(node as AST.PathExpression, place, found);
    case 'SubExpression':
      return callOf(node as AST.SubExpression, place, found);
    case 'StringLiteral':
    case 'NumberLiteral':
    case 'BooleanLiteral':
      return {
        kind: 'literal',
        value: (node as AST.StringLiteral | AST.NumberLiteral | AST.BooleanLiteral).value,
      };
    case 'NullLiteral':
    case 'UndefinedLiteral':
      return { kind: 'literal', value: null };
    default:
      throw new TemplateError(`a ${node.type} is not known`);
  }
}

const loopValues: ReadonlySet<string> = new Set(['@index', '@key', '@first', '@last']);
const maxUp = 5;
const maxNames = 10;

function pathOf(node: AST.PathExpression, { blocks, locals }: Place, found: Found): Path {
  const names = node.parts.map(String);
  const text = cutText(String(node.original), 60);
  const [first] = names;
  if (node.data) {
    const name = `@${names.join('.')}`;
    if (!loopValues.has(name)) throw new TemplateError(`{{${text}}} is not the name of a variable`);
    return { kind: 'path', up: node.depth, own: true, names: [name] };
  }
  if (node.depth > maxUp || names.length > maxNames)
    throw new TemplateError(`{{${text}}} leads too far`);
  const own = /^(?:\.\.\/)*(?:this\b|\.)/.test(String(node.original)) || node.depth > 0;
  if (first !== undefined && node.depth === blocks && (own || !locals.has(first)))
    found.variables.add(first);
  return { kind: 'path', up: node.depth, own, names };
}
