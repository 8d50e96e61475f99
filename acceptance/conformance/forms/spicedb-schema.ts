/** Schemas in the language of SpiceDB. Relations and permissions share their names there, as actions and relations may here. */
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

export interface SpicedbSchema {
  readonly resources: readonly CaseResource[];
  name(name: string): string;
}

export function readSchema(source: string): SpicedbSchema {
  const text = source.replace(/\/\*[\s\S]*?\*\//g, ' ').replace(/\/\/.*$/gm, '');
  const name = createNames();
  const conditions = new Map(
    blocksOf(text, 'caveat').map((block) => [block.name, caveatOf(block)]),
  );
  const resources = blocksOf(text, 'definition').map(({ name: type, body }): CaseResource => {
    const relations: Record<string, readonly string[]> = {};
    const permissions: Record<string, unknown> = {};
    for (const { kind, member, meaning } of statementsOf(body)) {
      if (kind === 'relation') relations[name(member)] = subjectsOf(meaning, name);
      else permissions[name(member)] = permissionOf(expressionOf(meaning, name));
    }
    const used = Object.values(relations).flatMap((list) =>
      list.flatMap((entry) => / with (.+)$/.exec(entry)?.[1] ?? []),
    );
    const own = Object.fromEntries([...conditions].filter(([one]) => used.includes(one)));
    return { name: name(type), relations: strictly(relations), permissions, conditions: own };
  });
  return { resources, name };
}

interface Block {
  readonly name: string;
  /** What stands in the brackets behind the name. */
  readonly parameters: string;
  readonly body: string;
}

function blocksOf(text: string, kind: 'caveat' | 'definition'): readonly Block[] {
  const head = new RegExp(`(?:^|[\\s}])${kind}\\s+([\\w/]+)\\s*(?:\\(([^)]*)\\))?\\s*(?=\\{)`, 'g');
  return [...text.matchAll(head)].map((match) => ({
    name: match[1] ?? '',
    parameters: match[2] ?? '',
    body: blockAt(text, (match.index ?? 0) + match[0].length - 1).body,
  }));
}

const caveatOf = ({ parameters, body }: Block) => ({
  params: Object.fromEntries(
    splitList(parameters).map((parameter) => {
      const [name = '', ...type] = parameter.split(/\s+/);
      return [name, parameterType(type.join(' '))];
    }),
  ),
  rule: body.trim().replace(/\s+/g, ' '),
});

interface Statement {
  readonly kind: string;
  readonly member: string;
  readonly meaning: string;
}

/** `relation a: ...` and `permission b = ...`, each up to the next. */
function statementsOf(body: string): readonly Statement[] {
  const heads = [...body.matchAll(/\b(relation|permission)\s+(\w+)\s*[:=]/g)];
  return heads.map((head, i) => ({
    kind: head[1] ?? '',
    member: head[2] ?? '',
    meaning: body.slice((head.index ?? 0) + head[0].length, heads[i + 1]?.index ?? body.length),
  }));
}

/** `user | group#member | user:* with caveat and expiration`. An expiry needs no permission here. */
const subjectsOf = (text: string, name: (name: string) => string): readonly string[] => [
  ...new Set(
    text.split('|').map((entry) => {
      const [subject = '', traits = ''] = entry.trim().split(/\s+with\s+/);
      const caveat = traits.split(/\s+and\s+/).find((one) => one !== '' && one !== 'expiration');
      const suffix = caveat === undefined ? '' : ` with ${caveat.trim()}`;
      if (subject.endsWith(':*')) return `${name(subject.slice(0, -2))}:*${suffix}`;
      const [type = '', set] = subject.split('#');
      return `${name(type)}${set === undefined || set === '...' ? '' : `#${name(set)}`}${suffix}`;
    }),
  ),
];

/** Itself is what every object may do here anyway. */
const self: Expression = { self: true };

/** Of the operators, `+` binds first, then `&`, then `-`. */
function expressionOf(text: string, name: (name: string) => string): Expression {
  const tokens = text.match(/->|[\w]+|[()+&.-]/g) ?? [];
  let at = 0;
  const next = (): string => tokens[at++] ?? '';

  const base = (): Expression => {
    const token = next();
    if (token === '(') {
      const inner = exclusion();
      if (next() !== ')') throw new Unmapped(`"${text.trim()}": a bracket does not end`);
      return inner;
    }
    if (token === 'nil') return { union: [] };
    if (token === 'self') return self;
    if (tokens[at] === '->') {
      at += 1;
      return `${name(token)}->${name(next())}`;
    }
    if (tokens[at] !== '.') return name(token);
    at += 1;
    return functionOf(token);
  };
  const functionOf = (relation: string): Expression => {
    const [kind, open, target, close] = [next(), next(), next(), next()];
    const arrow = `${name(relation)}->${name(target)}`;
    if (open !== '(' || close !== ')' || (kind !== 'any' && kind !== 'all'))
      throw new Unmapped(`"${text.trim()}": .${kind} is not understood`);
    return kind === 'any' ? arrow : { every: arrow };
  };
  const chain =
    (
      operator: string,
      part: () => Expression,
      join: (one: Expression, other: Expression) => Expression,
    ) =>
    (): Expression => {
      let left = part();
      while (tokens[at] === operator) {
        at += 1;
        left = join(left, part());
      }
      return left;
    };
  const union = chain('+', base, joined);
  const intersection = chain('&', union, (one, other) =>
    intersectionOf([plain(one), plain(other)]),
  );
  const exclusion = chain('-', intersection, (one, other) => exclusionOf(plain(one), plain(other)));
  const whole = exclusion();
  if (at < tokens.length) throw new Unmapped(`"${text.trim()}" goes on after its end`);
  return whole === self ? { union: [] } : whole;
}

const joined = (one: Expression, other: Expression): Expression => {
  const parts = [one, other].filter((part) => part !== self);
  return parts.length === 0 ? self : unionOf(parts);
};

/** Beside anything but alternatives, `self` would mean more than it does here. */
function plain(expression: Expression): Expression {
  if (expression === self) throw new Unmapped('`self` stands only among alternatives');
  return expression;
}
