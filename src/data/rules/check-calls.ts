/** Calls and operators of a rule: which types they take, and what they answer. Arguments have their types already. */
import { nearestName } from '../../kernel/operations/unknown-input.ts';
import { postgresPattern } from '../records/filter/postgres-pattern.ts';
import { PatternError } from '../schema/language/pattern/syntax.ts';
import { isKnown } from './choice.ts';
import type { Expression } from './expression.ts';
import { functionNames, overloadsOf, type RuleFunction } from './functions.ts';
import { RuleError } from './syntax.ts';
import { isNumber, listOf, plain, type RuleType, sameType, typeText } from './types.ts';

export const refuse = (at: number, rule: string, message: string): never => {
  throw new RuleError(rule, at, message);
};

/** The node with what follows from its parts. */
export const node = <E extends object>(
  parts: readonly Expression[],
  own: E & { readonly type: RuleType; readonly at: number; readonly nullable?: boolean },
) => ({ nullable: false, ...own, row: parts.some(({ row }) => row) });

export const bool = plain('bool');

export function boolean(expression: Expression, what: string): Expression {
  const { type, at } = expression;
  if (type.kind === 'bool') return expression;
  if (type.kind === 'json') return narrowed(expression, bool);
  return refuse(at, 'type', `${what} must be true or false, and this is ${typeText(type)}`);
}

/** Free JSON where another type is requested. */
export const narrowed = (of: Expression, type: RuleType): Expression =>
  node([of], { kind: 'narrow', of, type, at: of.at });

/** An integer literal beside doubles is one of them. */
export function widened(item: Expression, requested: RuleType): Expression {
  if (requested.kind === 'double' && item.kind === 'constant' && typeof item.value === 'bigint')
    return { ...item, type: requested, value: Number(item.value) };
  return item;
}

/** A member by its name: of the record, the caller, an object, a map or free JSON. */
export function member(of: Expression, key: string, at: number): Expression {
  const { type } = of;
  if (type.kind === 'object') {
    const found = type.members.get(key);
    if (!found) return refuse(at, 'field', unknownMember(type, key));
    if (type.row && found.field) {
      const { field } = found;
      return { kind: 'field', name: key, field, type: found.type, nullable: true, row: true, at };
    }
    if (of.kind === 'input')
      return {
        kind: 'input',
        name: `${of.name}.${key}`,
        type: found.type,
        nullable: false,
        row: false,
        at,
      };
    const { field } = found;
    return node([of], {
      kind: 'member',
      of,
      key,
      type: found.type,
      nullable: true,
      at,
      ...(field && { field }),
    });
  }
  if (type.kind === 'json')
    return node([of], { kind: 'member', of, key, type, nullable: true, at });
  if (type.kind === 'map')
    return node([of], { kind: 'member', of, key, ...itemType(type.values), at });
  return refuse(at, 'field', noMembers(of));
}

/** Free JSON may be null, where it is there. */
const itemType = (type: RuleType) => ({ type, nullable: type.kind === 'json' });

function unknownMember(type: Extract<RuleType, { kind: 'object' }>, key: string): string {
  if (type.uncompared?.has(key))
    return `"${key}" holds what rules do not compare: exact decimals, vectors, or whole numbers of 64 bits inside of a field`;
  return type.row
    ? `"${key}" is not a field that rules can use${adviceFor(key, [...type.members.keys()])}`
    : `"${key}" is not known here: there are ${[...type.members.keys()].join(', ')}`;
}

function adviceFor(key: string, known: readonly string[]): string {
  const nearest = nearestName(key, known);
  return nearest === undefined ? '' : `: did you mean ${nearest}?`;
}

/** Rules speak of one record. What a relation leads to is the business of arrows. */
const noMembers = (of: Expression): string =>
  of.kind === 'field' && of.field.kind === 'relation'
    ? `"${of.name}" is the id of another record, into which rules don't look: take a relation from the field ({ "from": "${of.name}" }), and give the right by an action of that record ("${of.name}->read")`
    : `${typeText(of.type)} has no members`;

interface Called {
  readonly name: string;
  readonly asMethod: boolean;
  readonly args: readonly Expression[];
  readonly at: number;
}

type Operator = (args: readonly [Expression, Expression], at: number) => Expression;

const junction =
  (kind: 'and' | 'or'): Operator =>
  (args, at) => {
    const of = args.map((one) => boolean(one, `a side of ${kind === 'and' ? '&&' : '||'}`));
    return node(of, { kind, of, type: bool, at });
  };

const negated = (of: Expression, at: number): Expression =>
  node([of], { kind: 'not', of: boolean(of, 'what stands behind !'), type: bool, at });

/** Operators that are no plain functions of their two sides. */
const operators: ReadonlyMap<string, Operator> = new Map<string, Operator>([
  ['_&&_', junction('and')],
  ['_||_', junction('or')],
  ['_==_', ([a, b], at) => equality(a, b, at)],
  ['_!=_', ([a, b], at) => negated(equality(a, b, at), at)],
  ['_<_', ([a, b], at) => ordering('<', a, b, at)],
  ['_<=_', ([a, b], at) => ordering('<=', a, b, at)],
  ['_>_', ([a, b], at) => ordering('>', a, b, at)],
  ['_>=_', ([a, b], at) => ordering('>=', a, b, at)],
  ['@in', ([a, b], at) => membership(a, b, at)],
  ['_[_]', ([a, b], at) => index(a, b, at)],
]);

export function call(called: Called): Expression {
  const { name, args, at } = called;
  const [a, b, c] = args;
  if (name === '!_' && a) return negated(a, at);
  if (name === '_?_:_' && a && b && c) return choice(boolean(a, 'what stands before ?'), b, c, at);
  const operator = operators.get(name);
  if (operator && a && b) return operator([a, b], at);
  return overloaded(called);
}

function choice(
  condition: Expression,
  left: Expression,
  right: Expression,
  at: number,
): Expression {
  const [a, b] = [widened(left, right.type), widened(right, left.type)];
  const type = a.type.kind === 'null' ? b.type : a.type;
  if (!sameType(a.type, b.type) && a.type.kind !== 'null' && b.type.kind !== 'null')
    return refuse(
      at,
      'type',
      `both answers of ?: must have one type, not ${typeText(a.type)} and ${typeText(b.type)}`,
    );
  const nullable = a.nullable || b.nullable;
  return node([condition, a, b], { kind: 'if', condition, yes: a, no: b, type, nullable, at });
}

function comparable(a: RuleType, b: RuleType): boolean {
  if (a.kind === 'null' || b.kind === 'null') return true;
  if (isNumber(a) && isNumber(b)) return true;
  const inJson: readonly string[] = ['bool', 'int', 'double', 'string', 'json'];
  if (a.kind === 'json') return inJson.includes(b.kind);
  if (b.kind === 'json') return inJson.includes(a.kind);
  if (a.kind === 'list' && b.kind === 'list') return comparable(a.items, b.items);
  return sameType(a, b);
}

function equality(left: Expression, right: Expression, at: number): Expression {
  const [a, b] = [widened(left, right.type), widened(right, left.type)];
  if (!comparable(a.type, b.type))
    return refuse(at, 'type', `${typeText(a.type)} and ${typeText(b.type)} can't be compared`);
  return node([a, b], { kind: 'equal', left: a, right: b, type: bool, at });
}

const ordered: readonly string[] = ['bool', 'int', 'double', 'string', 'timestamp', 'duration'];

function ordering(
  operator: '<' | '<=' | '>' | '>=',
  left: Expression,
  right: Expression,
  at: number,
): Expression {
  let [a, b] = [widened(left, right.type), widened(right, left.type)];
  const fromJson: readonly string[] = ['double', 'string', 'bool'];
  if (a.type.kind === 'json' && b.type.kind === 'int') a = narrowed(a, plain('double'));
  if (b.type.kind === 'json' && a.type.kind === 'int') b = narrowed(b, plain('double'));
  if (a.type.kind === 'json' && fromJson.includes(b.type.kind)) a = narrowed(a, b.type);
  if (b.type.kind === 'json' && fromJson.includes(a.type.kind)) b = narrowed(b, a.type);
  const fits =
    ordered.includes(a.type.kind) &&
    (sameType(a.type, b.type) || (isNumber(a.type) && isNumber(b.type)));
  if (!fits) return refuse(at, 'type', `${typeText(a.type)} and ${typeText(b.type)} have no order`);
  return node([a, b], { kind: 'order', operator, left: a, right: b, type: bool, at });
}

function membership(item: Expression, container: Expression, at: number): Expression {
  let list = container;
  if (list.type.kind === 'json') list = narrowed(list, listOf(plain('json')));
  if (list.type.kind === 'map') {
    if (item.type.kind !== 'string') return refuse(at, 'type', 'keys of a map are text');
  } else if (list.type.kind !== 'list') {
    return refuse(at, 'type', `${typeText(list.type)} is no list and no map`);
  } else if (!comparable(item.type, list.type.items)) {
    return refuse(
      at,
      'type',
      `a list of ${typeText(list.type.items)} can't hold ${typeText(item.type)}`,
    );
  }
  // Items that are fields are compared one by one.
  if (list.kind === 'list' && list.row) {
    const of = list.items.map((one) => equality(item, one, at));
    return node(of, { kind: 'or', of, type: bool, at });
  }
  const requested = list.type.kind === 'list' ? widened(item, list.type.items) : item;
  return node([requested, list], { kind: 'in', item: requested, list, type: bool, at });
}

function index(of: Expression, key: Expression, at: number): Expression {
  const { type } = of;
  if (key.kind === 'constant' && typeof key.value === 'string' && type.kind !== 'list')
    return member(of, key.value, at);
  if (type.kind === 'map' && key.type.kind === 'string')
    return node([of, key], { kind: 'index', of, key, ...itemType(type.values), at });
  if (type.kind === 'list' && key.type.kind === 'int') {
    const { type: items, nullable } = itemType(type.items);
    const isStored = !isKnown(of);
    return node([of, key], {
      kind: 'index',
      of,
      key,
      type: items,
      nullable: nullable || isStored,
      at,
    });
  }
  return refuse(at, 'type', `${typeText(type)} has no items by ${typeText(key.type)}`);
}

/** How well an argument fits: 0 as it is; nothing when it does not. */
function fitOf({ type, kind }: Expression, requested: RuleType): number | undefined {
  if (sameType(type, requested)) return 0;
  if (kind === 'constant' && type.kind === 'int' && requested.kind === 'double') return 1;
  const takesAny =
    (requested.kind === 'list' && type.kind === 'list' && requested.items.kind === 'json') ||
    (requested.kind === 'map' && type.kind === 'map' && requested.values.kind === 'json');
  if (takesAny) return 0;
  const fromJson: readonly string[] = ['bool', 'double', 'string', 'list'];
  return type.kind === 'json' && fromJson.includes(requested.kind) ? 2 : undefined;
}

const score = (args: readonly Expression[], one: RuleFunction): number | undefined => {
  if (args.length !== one.parameters.length) return undefined;
  const fits = args.map((arg, i) => fitOf(arg, one.parameters[i] ?? plain('null')));
  return fits.every((found) => found !== undefined)
    ? fits.reduce((sum, found) => sum + found, 0)
    : undefined;
};

function overloaded(called: Called): Expression {
  const { name, asMethod, args, at } = called;
  if (name === 'matches') return matching(called);
  const candidates = overloadsOf(name, asMethod);
  if (candidates.length === 0) return refuse(at, 'function', unknownFunction(name));
  const scored = candidates
    .map(([id, one]) => ({ id, one, cost: score(args, one) }))
    .filter((entry) => entry.cost !== undefined)
    .sort((a, b) => (a.cost ?? 0) - (b.cost ?? 0));
  const [best, next] = scored;
  const types = args.map(({ type }) => typeText(type)).join(', ');
  if (!best) return refuse(at, 'type', `${written(name)} does not take ${types || 'nothing'}`);
  if (next && next.cost === best.cost && (best.cost ?? 0) >= 2)
    return refuse(
      at,
      'type',
      `${written(name)}: say which type free JSON has, by string(...), double(...) or bool(...)`,
    );
  const of = args.map((arg, i) => adapted(arg, best.one.parameters[i] ?? arg.type));
  const [a, b] = args;
  const type =
    best.id === 'addList' && a && b ? typeOfBoth(a.type, b.type, called) : best.one.result;
  return node(of, { kind: 'call', function: best.id, of, type, at });
}

/** Of two lists in one; an empty one has no type of its own. */
function typeOfBoth(a: RuleType, b: RuleType, { at }: Called): RuleType {
  const isEmpty = (type: RuleType): boolean => type.kind === 'list' && type.items.kind === 'null';
  if (isEmpty(a)) return b;
  if (isEmpty(b) || sameType(a, b)) return a;
  return refuse(at, 'type', `${typeText(a)} and ${typeText(b)} do not make one list`);
}

function adapted(arg: Expression, requested: RuleType): Expression {
  if (arg.type.kind === 'json') return narrowed(arg, requested);
  return widened(arg, requested);
}

const written = (name: string): string =>
  name.includes('_') && name !== 'in_cidr'
    ? `the operator ${name.replaceAll('_', '')}`
    : `${name}()`;

const unknownFunction = (name: string): string =>
  `${written(name)} is not known in rules: there are ${[...functionNames, 'matches', 'has'].sort().join(', ')}`;

/** The pattern must be known when the rule is declared, in the pattern language of schemas. */
function matching({ args: [text, pattern], at }: Called): Expression {
  if (!text || pattern?.kind !== 'constant' || typeof pattern.value !== 'string')
    return refuse(
      pattern?.at ?? at,
      'pattern',
      'matches() takes a pattern that is written in the rule',
    );
  const of = text.type.kind === 'json' ? narrowed(text, plain('string')) : text;
  if (of.type.kind !== 'string')
    return refuse(at, 'type', `matches() does not take ${typeText(of.type)}`);
  try {
    postgresPattern(pattern.value);
  } catch (error) {
    if (error instanceof PatternError) return refuse(pattern.at, 'pattern', error.message);
    throw error;
  }
  return node([of], { kind: 'call', function: 'matches', of: [of, pattern], type: bool, at });
}
