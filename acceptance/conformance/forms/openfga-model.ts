/**
 * Models in the DSL of OpenFGA. What is a relation there may be assigned and computed at once; here the assigned part is
 * a relation `<name>Rel`, and what is asked about is an action of the name.
 */
import type { CaseResource } from '../cases.ts';
import {
  blockAt,
  createNames,
  type Expression,
  exclusionOf,
  intersectionOf,
  parameterType,
  permissionOf,
  splitList,
  strictly,
  Unmapped,
  unionOf,
} from './public-case.ts';

export interface OpenfgaModel {
  readonly resources: readonly CaseResource[];
  /** The names that we use. */
  name(name: string): string;
  /** The relation of a tuple. */
  assigned(relation: string): string;
}

export function readModel(source: string): OpenfgaModel {
  const text = withoutComments(source);
  const name = createNames();
  const { types, suffix } = declarationsOf(text);
  const assigned = (relation: string): string => name(`${relation}${suffix}`);
  const conditions = conditionsOf(text);
  const resources = types.map(({ type, defines }): CaseResource => {
    const relations: Record<string, readonly string[]> = {};
    const permissions: Record<string, unknown> = {};
    for (const [relation, expression] of defines) {
      const parser = createParser(expression, { name, assigned, relation });
      permissions[name(relation)] = permissionOf(parser.expression);
      if (parser.direct) relations[assigned(relation)] = parser.direct;
    }
    const used = Object.values(relations).flatMap((list) =>
      list.flatMap((entry) => / with (.+)$/.exec(entry)?.[1] ?? []),
    );
    const own = Object.fromEntries(
      [...conditions].filter(([condition]) => used.includes(condition)),
    );
    return { name: name(type), relations: strictly(relations), permissions, conditions: own };
  });
  return { resources, name, assigned };
}

/** A `#` between words begins a comment; within a word it is part of a set. */
const withoutComments = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.replace(/(^|\s)#.*$/, ''))
    .join('\n');

interface Declared {
  readonly type: string;
  readonly defines: readonly (readonly [relation: string, expression: string])[];
}

const heads = /^\s*(type|define|condition|relations|model|schema|extend|module)\b/;

function declarationsOf(text: string): {
  readonly types: readonly Declared[];
  readonly suffix: string;
} {
  const types: { type: string; defines: [string, string][] }[] = [];
  let open: [string, string] | undefined;
  for (const line of text.split('\n')) {
    const head = heads.exec(line)?.[1];
    if (head === 'extend' || head === 'module') throw new Unmapped('modular models are not read');
    if (head === undefined) {
      if (open) open[1] += ` ${line.trim()}`;
      continue;
    }
    open = undefined;
    const words = line.trim();
    if (head === 'type') types.push({ type: words.slice(5).trim(), defines: [] });
    if (head === 'define') {
      const colon = words.indexOf(':');
      open = [words.slice(7, colon).trim(), words.slice(colon + 1).trim()];
      types.at(-1)?.defines.push(open);
    }
  }
  const names = new Set(types.flatMap(({ defines }) => defines.map(([relation]) => relation)));
  const suffix = ['Rel', 'Assigned', 'Direct'].find(
    (one) => ![...names].some((relation) => names.has(`${relation}${one}`)),
  );
  if (suffix === undefined) throw new Unmapped('relations are called as assigned ones would be');
  return { types, suffix };
}

function conditionsOf(text: string): ReadonlyMap<string, unknown> {
  const found = new Map<string, unknown>();
  for (const match of text.matchAll(/^[ \t]*condition[ \t]+(\w+)[ \t]*\(([^)]*)\)/gm)) {
    const [head, name = '', parameters = ''] = match;
    const { body } = blockAt(text, (match.index ?? 0) + head.length);
    const params = Object.fromEntries(
      splitList(parameters).map((parameter) => {
        const colon = parameter.indexOf(':');
        return [parameter.slice(0, colon).trim(), parameterType(parameter.slice(colon + 1))];
      }),
    );
    found.set(name, { params, rule: body.trim().replace(/\s+/g, ' ') });
  }
  return found;
}

interface Naming {
  name(name: string): string;
  assigned(relation: string): string;
  readonly relation: string;
}

/** What stands behind `define <relation>:`, and who is assigned to it. */
function createParser(text: string, { name, assigned, relation }: Naming) {
  const tokens = text.match(/\[[^\]]*\]|\(|\)|[^\s()[\]]+/g) ?? [];
  let at = 0;
  let direct: readonly string[] | undefined;

  const term = (): Expression => {
    const token = tokens[at++];
    if (token === undefined) throw new Unmapped(`"${text}" ends too early`);
    if (token === '(') {
      const inner = expression();
      if (tokens[at++] !== ')') throw new Unmapped(`"${text}": a bracket does not end`);
      return inner;
    }
    if (token.startsWith('[')) {
      direct = splitList(token.slice(1, -1)).map((entry) => subjectEntry(entry, name));
      return assigned(relation);
    }
    if (tokens[at] !== 'from') return name(token);
    const through = tokens[at + 1] ?? '';
    at += 2;
    return `${assigned(through)}->${name(token)}`;
  };
  const expression = (): Expression => {
    let left = term();
    for (
      let operator = tokens[at];
      operator !== undefined && operator !== ')';
      operator = tokens[at]
    ) {
      at += 1;
      if (operator === 'or') left = unionOf([left, term()]);
      else if (operator === 'and') left = intersectionOf([left, term()]);
      else if (operator === 'but' && tokens[at++] === 'not') left = exclusionOf(left, term());
      else throw new Unmapped(`"${text}": ${operator} is not understood`);
    }
    return left;
  };
  const whole = expression();
  if (at < tokens.length) throw new Unmapped(`"${text}" goes on after its end`);
  return { expression: whole, direct };
}

/** `user`, `user:*`, `group#member`, each with an optional condition. */
function subjectEntry(entry: string, name: (name: string) => string): string {
  const [subject = '', condition] = entry.split(/\s+with\s+/);
  const suffix = condition === undefined ? '' : ` with ${condition.trim()}`;
  if (subject.endsWith(':*')) return `${name(subject.slice(0, -2))}:*${suffix}`;
  const [type = '', set] = subject.split('#');
  return `${name(type)}${set === undefined ? '' : `#${name(set)}`}${suffix}`;
}
