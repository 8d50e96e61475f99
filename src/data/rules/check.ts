/** Gives a rule its types. Everything that is wrong with it is found here, with its place, before it ever runs. */
import { isStorable } from '../../kernel/text.ts';
import { bool, boolean, call, member, narrowed, node, refuse, widened } from './check-calls.ts';
import { isKnown } from './choice.ts';
import type { RuleEnvironment } from './environment.ts';
import type { Expression, Macro } from './expression.ts';
import { parseRule, type Syntax, type SyntaxInfo } from './syntax.ts';
import { isNumber, listOf, plain, type RuleType, sameType, typeText } from './types.ts';

interface Checking {
  readonly environment: RuleEnvironment;
  readonly info: SyntaxInfo;
  /** Variables of macros, innermost last. */
  readonly scope: readonly (readonly [name: string, variable: Expression])[];
}

/** Throws `RuleError`. */
export function checkRule(text: string, environment: RuleEnvironment): Expression {
  const { expr, sourceInfo } = parseRule(text);
  const checked = typed(expr, { environment, info: sourceInfo, scope: [] });
  return boolean(checked, 'a rule');
}

const positionOf = ({ info }: Checking, { id }: Syntax): number =>
  (info?.positions as Readonly<Record<string, number>> | undefined)?.[String(id)] ?? 0;

function typed(syntax: Syntax, checking: Checking): Expression {
  const at = positionOf(checking, syntax);
  const kind = syntax.exprKind;
  switch (kind.case) {
    case 'constExpr':
      return constant(kind.value.constantKind, at);
    case 'identExpr':
      return named(kind.value.name, at, checking);
    case 'selectExpr': {
      const { operand, field, testOnly } = kind.value;
      if (!operand) break;
      const of = member(typed(operand, checking), field, at);
      return testOnly ? node([of], { kind: 'has', of, type: bool, at }) : of;
    }
    case 'callExpr': {
      const { target, args } = kind.value;
      const all = [...(target ? [target] : []), ...args].map((one) => typed(one, checking));
      return call({ name: kind.value.function, asMethod: target !== undefined, args: all, at });
    }
    case 'listExpr':
      return list(
        kind.value.elements.map((one) => typed(one, checking)),
        at,
      );
    case 'structExpr':
      if (kind.value.messageName === '') return map(kind.value.entries, at, checking);
      break;
    case 'comprehensionExpr':
    // What stands inside of a macro is told by its id alone.
    case undefined:
      return macro(syntax, at, checking);
    default:
  }
  return refuse(at, 'syntax', 'is not supported in rules');
}

type ConstantKind = Extract<Syntax['exprKind'], { case: 'constExpr' }>['value']['constantKind'];

function constant(kind: ConstantKind, at: number): Expression {
  const of = (type: RuleType, value: null | boolean | bigint | number | string): Expression => ({
    kind: 'constant',
    value,
    type,
    nullable: value === null,
    row: false,
    at,
  });
  switch (kind.case) {
    case 'boolValue':
      return of(bool, kind.value);
    case 'int64Value':
    case 'uint64Value': {
      const value = BigInt(kind.value);
      if (BigInt.asIntN(64, value) !== value)
        return refuse(at, 'type', 'is beyond the whole numbers of 64 bits');
      return of(plain('int'), value);
    }
    case 'doubleValue':
      if (!Number.isFinite(kind.value)) return refuse(at, 'type', 'is beyond the numbers of rules');
      return of(plain('double'), kind.value);
    case 'stringValue':
      if (!isStorable(kind.value)) return refuse(at, 'type', 'holds a character that is not text');
      return of(plain('string'), kind.value);
    case 'nullValue':
      return of(plain('null'), null);
    default:
      return refuse(at, 'syntax', 'values of this kind are not supported in rules');
  }
}

function named(name: string, at: number, { environment, scope }: Checking): Expression {
  const variable = scope.findLast(([known]) => known === name)?.[1];
  if (variable) return { ...variable, at };
  const type = environment.names.get(name);
  if (!type) {
    const known = [...environment.names.keys()].join(', ');
    return refuse(at, 'name', `"${name}" is not known here: there are ${known}`);
  }
  return { kind: 'input', name, type, nullable: type.kind === 'json', row: false, at };
}

function list(items: readonly Expression[], at: number): Expression {
  const [first] = items;
  const of = first ? first.type : plain('null');
  const odd = items.find(({ type }) => !sameType(type, of) && !(isNumber(type) && isNumber(of)));
  if (odd) return refuse(odd.at, 'type', 'all items of a list must have one type');
  const type = items.some((item) => item.type.kind === 'double') ? plain('double') : of;
  return node(items, {
    kind: 'list',
    items: items.map((item) => widened(item, type)),
    type: listOf(type),
    at,
  });
}

type MapEntries = Extract<Syntax['exprKind'], { case: 'structExpr' }>['value']['entries'];

function map(entries: MapEntries, at: number, checking: Checking): Expression {
  const found = entries.map(({ keyKind, value }) => {
    const key = keyKind.case === 'mapKey' ? typed(keyKind.value, checking) : undefined;
    if (key?.kind !== 'constant' || typeof key.value !== 'string' || !value)
      return refuse(key?.at ?? at, 'type', 'keys of a map must be written as text');
    return [key.value, typed(value, checking)] as const;
  });
  const items = list(
    found.map(([, value]) => value),
    at,
  );
  if (items.kind !== 'list' || items.type.kind !== 'list') return items;
  const { row, type } = items;
  if (row) return refuse(at, 'sql', 'a map may not hold fields of the record');
  const values = items.items;
  return {
    kind: 'map',
    entries: found.map(([key], i) => [key, values[i] ?? items] as const),
    type: { kind: 'map', values: type.items },
    nullable: false,
    row: false,
    at,
  };
}

const macros: ReadonlySet<string> = new Set<Macro>([
  'exists',
  'all',
  'exists_one',
  'filter',
  'map',
]);

/** Lists within lists: each level multiplies the work for a row. */
const MAX_LOOPS = 2;

type MacroCall = Extract<Syntax['exprKind'], { case: 'callExpr' }>['value'];

/** The call as it was written: the parser keeps it beside what it makes of it. */
function macro(syntax: Syntax, at: number, checking: Checking): Expression {
  const { macroCalls } = checking.info as { macroCalls: Readonly<Record<string, Syntax>> };
  const kind = macroCalls[String(syntax.id)]?.exprKind;
  if (kind?.case !== 'callExpr') return refuse(at, 'syntax', 'is not supported in rules');
  const { function: name, target, args } = kind.value;
  const [tested] = args;
  if (name === 'has' && tested?.exprKind.case === 'selectExpr') {
    const of = typed(tested, checking);
    return node([of], { kind: 'has', of, type: bool, at });
  }
  if (!target || !macros.has(name))
    return refuse(at, 'function', 'this macro is not supported in rules');
  if (checking.scope.length === MAX_LOOPS)
    return refuse(at, 'depth', `lists are gone through at most ${MAX_LOOPS} within each other`);
  return each(kind.value, at, checking);
}

function each(call: MacroCall, at: number, checking: Checking): Expression {
  const macro = call.function as Macro;
  const [name, bodySyntax, ...rest] = call.args;
  if (!call.target || name?.exprKind.case !== 'identExpr' || !bodySyntax || rest.length > 0)
    return refuse(at, 'function', `${macro}() takes a name and an expression`);
  let source = typed(call.target, checking);
  if (source.type.kind === 'json') source = narrowed(source, listOf(plain('json')));
  if (source.type.kind !== 'list')
    return refuse(at, 'type', `${macro}() does not go through ${typeText(source.type)}`);
  const variable = name.exprKind.value.name;
  const isStored = !isKnown(source);
  const item: Expression = {
    kind: 'variable',
    name: variable,
    type: source.type.items,
    nullable: isStored || source.type.items.kind === 'json',
    row: isStored,
    at,
  };
  const body = typed(bodySyntax, { ...checking, scope: [...checking.scope, [variable, item]] });
  const inner = macro === 'map' ? body : boolean(body, `what ${macro}() asks`);
  const type = macro === 'map' ? listOf(inner.type) : macro === 'filter' ? source.type : bool;
  return node([source, inner], {
    kind: 'each',
    macro,
    list: source,
    variable,
    body: inner,
    type,
    at,
  });
}
