/**
 * The functions of rules: which types they take, and what they answer. Those of `function-sql.ts` also work on
 * fields of a record; the others only on values that are known before a statement is made.
 */
import { withoutEnd } from '../../kernel/text.ts';
import {
  type Address,
  addressText,
  contains,
  type Network,
  networkText,
  readAddress,
  readNetwork,
} from './network.ts';
import {
  isMoment,
  isSpan,
  type MomentPart,
  momentParts,
  momentTextOf,
  partOf,
  readMoment,
  readSpan,
  spanTextOf,
} from './time.ts';
import { listOf, plain, type RuleType } from './types.ts';
import type { RuleValue } from './values.ts';

export interface RuleFunction {
  /** As in the syntax: `_+_` for operators. */
  readonly name: string;
  /** Called on its first argument. */
  readonly method: boolean;
  readonly parameters: readonly RuleType[];
  readonly result: RuleType;
  /** Nothing: there is no such value (an error). Arguments are never null. */
  evaluate(args: readonly never[]): RuleValue | undefined;
}

const bool = plain('bool');
const int = plain('int');
const double = plain('double');
const text = plain('string');
const moment = plain('timestamp');
const span = plain('duration');
const ip = plain('ip');
const cidr = plain('cidr');
const texts = listOf(text);
const anyList = listOf(plain('json'));
const anyMap: RuleType = { kind: 'map', values: plain('json') };

/** The function of a table, with the types of its arguments as they are in JavaScript. */
function define<const A extends readonly RuleValue[]>(
  name: string,
  [parameters, result]: readonly [readonly RuleType[], RuleType],
  evaluate: (...args: A) => RuleValue | undefined,
  method = false,
): RuleFunction {
  return {
    name,
    method,
    parameters,
    result,
    evaluate: (args) => evaluate(...(args as unknown as A)),
  };
}

const method = <const A extends readonly RuleValue[]>(
  name: string,
  types: readonly [readonly RuleType[], RuleType],
  evaluate: (...args: A) => RuleValue | undefined,
): RuleFunction => define(name, types, evaluate, true);

const int64 = (value: bigint): bigint | undefined =>
  BigInt.asIntN(64, value) === value ? value : undefined;
const inSpan = (value: bigint): bigint | undefined => (isSpan(value) ? value : undefined);
const inTime = (value: bigint): bigint | undefined => (isMoment(value) ? value : undefined);

/** Numbers with which PostgreSQL can neither overflow nor underflow: beyond them arithmetic has no value. */
const isModerate = (x: number): boolean =>
  x === 0 || (Math.abs(x) >= 1e-150 && Math.abs(x) <= 1e150);

type Pair<T> = [T, T];
const doubles = (name: string, compute: (a: number, b: number) => number): RuleFunction =>
  define(name, [[double, double], double], (...[a, b]: Pair<number>) =>
    isModerate(a) && isModerate(b) && !(name === '_/_' && b === 0) ? compute(a, b) : undefined,
  );
const ints = (name: string, compute: (a: bigint, b: bigint) => bigint): RuleFunction =>
  define(name, [[int, int], int], (...[a, b]: Pair<bigint>) =>
    b === 0n && (name === '_/_' || name === '_%_') ? undefined : int64(compute(a, b)),
  );

const arithmetic = {
  addInt: ints('_+_', (a, b) => a + b),
  subtractInt: ints('_-_', (a, b) => a - b),
  multiplyInt: ints('_*_', (a, b) => a * b),
  divideInt: ints('_/_', (a, b) => a / b),
  moduloInt: ints('_%_', (a, b) => a % b),
  negateInt: define('-_', [[int], int], (a: bigint) => int64(-a)),
  addDouble: doubles('_+_', (a, b) => a + b),
  subtractDouble: doubles('_-_', (a, b) => a - b),
  multiplyDouble: doubles('_*_', (a, b) => a * b),
  divideDouble: doubles('_/_', (a, b) => a / b),
  negateDouble: define('-_', [[double], double], (a: number) => -a),
  addText: define('_+_', [[text, text], text], (...[a, b]: Pair<string>) => a + b),
  addList: define('_+_', [[anyList, anyList], anyList], (...[a, b]: Pair<readonly RuleValue[]>) => [
    ...a,
    ...b,
  ]),
};

const time = {
  addSpan: define('_+_', [[moment, span], moment], (...[a, b]: Pair<bigint>) => inTime(a + b)),
  addMoment: define('_+_', [[span, moment], moment], (...[a, b]: Pair<bigint>) => inTime(a + b)),
  addSpans: define('_+_', [[span, span], span], (...[a, b]: Pair<bigint>) => inSpan(a + b)),
  subtractMoment: define('_-_', [[moment, moment], span], (...[a, b]: Pair<bigint>) =>
    inSpan(a - b),
  ),
  subtractSpan: define('_-_', [[moment, span], moment], (...[a, b]: Pair<bigint>) => inTime(a - b)),
  subtractSpans: define('_-_', [[span, span], span], (...[a, b]: Pair<bigint>) => inSpan(a - b)),
  spanHours: method('getHours', [[span], int], (a: bigint) => a / 3_600_000_000n),
  spanMinutes: method('getMinutes', [[span], int], (a: bigint) => a / 60_000_000n),
  spanSeconds: method('getSeconds', [[span], int], (a: bigint) => a / 1_000_000n),
  spanMilliseconds: method('getMilliseconds', [[span], int], (a: bigint) => (a / 1_000n) % 1_000n),
};

const momentPart = (part: MomentPart) => ({
  [part]: method(part, [[moment], int], (a: bigint) => partOf(part, a, 'UTC')),
  [`${part}In`]: method(part, [[moment, text], int], (a: bigint, zone: string) =>
    partOf(part, a, zone),
  ),
});

const texting = {
  startsWith: method('startsWith', [[text, text], bool], (...[a, b]: Pair<string>) =>
    a.startsWith(b),
  ),
  endsWith: method('endsWith', [[text, text], bool], (...[a, b]: Pair<string>) => a.endsWith(b)),
  contains: method('contains', [[text, text], bool], (...[a, b]: Pair<string>) => a.includes(b)),
  lowerAscii: method('lowerAscii', [[text], text], (a: string) =>
    a.replace(/[A-Z]/g, (letter) => letter.toLowerCase()),
  ),
  upperAscii: method('upperAscii', [[text], text], (a: string) =>
    a.replace(/[a-z]/g, (letter) => letter.toUpperCase()),
  ),
  split: method('split', [[text, text], texts], (...[a, b]: Pair<string>) =>
    b === '' ? [...a] : a.split(b),
  ),
  join: method('join', [[texts, text], text], (a: readonly string[], b: string) => a.join(b)),
  sizeOfText: define('size', [[text], int], (a: string) => BigInt([...a].length)),
  sizeOfList: define('size', [[anyList], int], (a: readonly RuleValue[]) => BigInt(a.length)),
  sizeOfMap: define('size', [[anyMap], int], (a: ReadonlyMap<string, RuleValue>) => BigInt(a.size)),
};

const wholeText = /^[+-]?\d{1,19}$/;
const numberText = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?$/;

const conversions = {
  intOfInt: define('int', [[int], int], (a: bigint) => a),
  intOfDouble: define('int', [[double], int], (a: number) =>
    Math.abs(a) < 9.2e18 ? BigInt(Math.trunc(a)) : undefined,
  ),
  intOfText: define('int', [[text], int], (a: string) =>
    wholeText.test(a) ? int64(BigInt(a.replace('+', ''))) : undefined,
  ),
  intOfMoment: define('int', [[moment], int], (a: bigint) => a / 1_000_000n),
  doubleOfDouble: define('double', [[double], double], (a: number) => a),
  doubleOfInt: define('double', [[int], double], (a: bigint) => Number(a)),
  doubleOfText: define('double', [[text], double], (a: string) => {
    const number = numberText.test(a) ? Number(a) : Number.NaN;
    return Number.isFinite(number) ? number : undefined;
  }),
  textOfText: define('string', [[text], text], (a: string) => a),
  textOfInt: define('string', [[int], text], (a: bigint) => String(a)),
  textOfDouble: define('string', [[double], text], (a: number) => String(a)),
  textOfBool: define('string', [[bool], text], (a: boolean) => String(a)),
  textOfMoment: define('string', [[moment], text], (a: bigint) => {
    const digits = withoutEnd(momentTextOf(a).slice(0, -1), '0');
    return `${withoutEnd(digits, '.')}Z`;
  }),
  textOfSpan: define('string', [[span], text], (a: bigint) => spanTextOf(a)),
  textOfAddress: define('string', [[ip], text], (a: Address) => addressText(a)),
  textOfNetwork: define('string', [[cidr], text], (a: Network) => networkText(a)),
  boolOfBool: define('bool', [[bool], bool], (a: boolean) => a),
  momentOfMoment: define('timestamp', [[moment], moment], (a: bigint) => a),
  momentOfText: define('timestamp', [[text], moment], readMoment),
  momentOfInt: define('timestamp', [[int], moment], (a: bigint) => inTime(a * 1_000_000n)),
  spanOfSpan: define('duration', [[span], span], (a: bigint) => a),
  spanOfText: define('duration', [[text], span], readSpan),
};

const inNetwork = (network: string, other: Address): boolean | undefined => {
  const found = readNetwork(network);
  return found && contains(found, other);
};

const network = {
  ip: define('ip', [[text], ip], readAddress),
  ipaddress: define('ipaddress', [[text], ip], readAddress),
  isIP: define('isIP', [[text], bool], (a: string) => readAddress(a) !== undefined),
  family: method('family', [[ip], int], (a: Address) => BigInt(a.version)),
  cidr: define('cidr', [[text], cidr], readNetwork),
  containsIP: method('containsIP', [[cidr, ip], bool], (a: Network, b: Address) => contains(a, b)),
  containsIPText: method('containsIP', [[cidr, text], bool], (a: Network, b: string) => {
    const found = readAddress(b);
    return found && contains(a, found);
  }),
  containsCIDR: method('containsCIDR', [[cidr, cidr], bool], (a: Network, b: Network) =>
    contains(a, b),
  ),
  inCidr: method('in_cidr', [[ip, cidr], bool], (a: Address, b: Network) => contains(b, a)),
  inCidrText: method('in_cidr', [[ip, text], bool], (a: Address, b: string) => inNetwork(b, a)),
};

const table = {
  ...arithmetic,
  ...time,
  ...texting,
  ...conversions,
  ...network,
};

const parts: Readonly<Record<string, RuleFunction>> = Object.assign(
  {},
  ...momentParts.map(momentPart),
);

export type FunctionId = keyof typeof table | MomentPart | `${MomentPart}In` | 'matches';

const functions: Readonly<Record<string, RuleFunction>> = { ...table, ...parts };

export const functionOf = (id: FunctionId): RuleFunction | undefined => functions[id];

/** By the name that stands in rules; `size` may also be called on its argument. */
const byName = new Map<string, readonly (readonly [FunctionId, RuleFunction])[]>();
for (const [id, one] of Object.entries(functions)) {
  const entry = [id as FunctionId, one] as const;
  byName.set(one.name, [...(byName.get(one.name) ?? []), entry]);
}

export const overloadsOf = (
  name: string,
  asMethod: boolean,
): readonly (readonly [FunctionId, RuleFunction])[] =>
  (byName.get(name) ?? []).filter(([, one]) => one.method === asMethod || name === 'size');

export const functionNames: readonly string[] = [...byName.keys()].filter(
  (name) => !name.includes('_') || name === 'in_cidr',
);
