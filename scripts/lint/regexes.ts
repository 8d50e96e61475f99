/** The regular expressions of a source file, read from its syntax tree: literals and `RegExp(...)`. */
import { parseSync } from 'oxc-parser';

export interface FoundRegex {
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly pattern: string;
  readonly flags: string;
}

export interface Regexes {
  readonly found: readonly FoundRegex[];
  /** `RegExp(...)` whose pattern is made at run time: `path:line`. */
  readonly made: readonly string[];
}

interface Node {
  readonly type?: string;
  readonly start?: number;
  readonly name?: string;
  readonly value?: unknown;
  readonly regex?: { readonly pattern: string; readonly flags: string };
  readonly callee?: Node;
  readonly arguments?: readonly Node[];
  readonly quasi?: Node;
  readonly tag?: Node;
  readonly object?: Node;
  readonly property?: Node;
  readonly kind?: string;
  readonly declarations?: readonly { readonly id: Node; readonly init?: Node }[];
  readonly quasis?: readonly {
    readonly value: { readonly raw: string; readonly cooked: string };
  }[];
  readonly expressions?: readonly Node[];
}

export function regexesOf(path: string, text: string): Regexes {
  const found: FoundRegex[] = [];
  const made: string[] = [];
  const constants = new Map<string, string>();
  for (const node of nodesOf(parseSync(path, text).program)) {
    if (node.type === 'VariableDeclaration' && node.kind === 'const') remember(constants, node);
    const line = (): number => text.slice(0, node.start ?? 0).split('\n').length;
    if (node.regex) found.push({ path, line: line(), ...node.regex });
    else if (isRegExpCall(node)) {
      const [pattern, flags = ''] = (node.arguments ?? []).map((argument) =>
        constant(argument, constants),
      );
      if (pattern === undefined) made.push(`${path}:${line()}`);
      else found.push({ path, line: line(), pattern, flags });
    }
  }
  return { found, made };
}

function remember(constants: Map<string, string>, { declarations = [] }: Node): void {
  for (const { id, init } of declarations) {
    const value = init && constant(init, constants);
    if (id.name !== undefined && value !== undefined) constants.set(id.name, value);
  }
}

const isRegExpCall = ({ type, callee }: Node): boolean =>
  (type === 'NewExpression' || type === 'CallExpression') &&
  callee?.type === 'Identifier' &&
  callee.name === 'RegExp';

/** The text of a literal, of a template (`String.raw` included), or of a constant that is declared above. */
function constant(node: Node, constants: ReadonlyMap<string, string>): string | undefined {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : undefined;
  if (node.type === 'Identifier') return constants.get(node.name ?? '');
  if (node.type === 'TemplateLiteral') return filled(node, 'cooked', constants);
  const isRaw =
    node.type === 'TaggedTemplateExpression' &&
    node.tag?.object?.name === 'String' &&
    node.tag.property?.name === 'raw';
  return isRaw && node.quasi ? filled(node.quasi, 'raw', constants) : undefined;
}

function filled(
  template: Node,
  form: 'raw' | 'cooked',
  constants: ReadonlyMap<string, string>,
): string | undefined {
  const holes = (template.expressions ?? []).map((hole) => constant(hole, constants));
  if (holes.includes(undefined)) return undefined;
  return (template.quasis ?? []).map(({ value }, i) => `${value[form]}${holes[i] ?? ''}`).join('');
}

function* nodesOf(node: unknown): Generator<Node> {
  if (typeof node !== 'object' || node === null) return;
  if (!Array.isArray(node) && typeof (node as Node).type === 'string') yield node as Node;
  for (const child of Object.values(node)) yield* nodesOf(child);
}
