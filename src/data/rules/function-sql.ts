/**
 * Functions over fields of a record, as SQL. Where there is no value the expression is null, and it never
 * fails: PostgreSQL computes only within bounds that hold what comes out.
 */
import type { FunctionId } from './functions.ts';
import { addressPattern, networkPattern } from './network.ts';
import { firstMoment, lastMoment, longestSpan, type MomentPart, momentParts } from './time.ts';

type ToSql = (...args: readonly string[]) => string;

/** Each argument computed once, as `a.x` and `a.y`. */
const once = (text: string, ...args: readonly string[]): string =>
  `(select ${text} from (values (${args.join(', ')})) a(${['x', 'y'].slice(0, args.length).join(', ')}))`;

const bounded = (value: string, from: bigint, to: bigint): string =>
  once(`case when a.x between ${from} and ${to} then a.x end`, value);

const int64 = (value: string): string =>
  bounded(value, -9_223_372_036_854_775_808n, 9_223_372_036_854_775_807n);
const moment = (value: string): string => bounded(value, firstMoment, lastMoment);
const span = (value: string): string => bounded(value, -longestSpan, longestSpan);

const ints =
  (operator: string): ToSql =>
  (a, b) =>
    int64(`(${a})::numeric ${operator} (${b})::numeric`);

const dividing =
  (name: 'div' | 'mod'): ToSql =>
  (a, b) =>
    int64(
      once(`case when a.y <> 0 then ${name}(a.x, a.y) end`, `(${a})::numeric`, `(${b})::numeric`),
    );

const moderate = (value: string): string =>
  `(${value} = 0 or abs(${value}) between 1e-150::float8 and 1e150::float8)`;

const doubles =
  (operator: string): ToSql =>
  (a, b) =>
    once(
      `case when ${moderate('a.x')} and ${moderate('a.y')}${operator === '/' ? ' and a.y <> 0' : ''} then a.x ${operator} a.y end`,
      `(${a})::float8`,
      `(${b})::float8`,
    );

const capitals = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const small = capitals.toLowerCase();

/** An IPv4 address, or a network of them, that is written as IPv6 is of IPv4. */
const unmapped = (a: string): string =>
  `case when ${a} <<= '::ffff:0:0/96'::inet then set_masklen('0.0.0.0'::inet + (${a} - '::ffff:0:0'::inet), masklen(${a}) - 96) else ${a} end`;
const inetOf =
  (pattern: string): ToSql =>
  (a) =>
    once(`case when a.x ~ '${pattern}' then ${unmapped('a.x::inet')} end`, a);
const addressOf = inetOf(addressPattern);
const networkOf = inetOf(networkPattern);
const within: ToSql = (network, other) => `((${network}) >>= (${other}))`;

const spanPart =
  (micros: number): ToSql =>
  (a) =>
    `div(${a}, ${micros})`;

const same: ToSql = (a) => a;

const general: Partial<Record<FunctionId, ToSql>> = {
  addInt: ints('+'),
  subtractInt: ints('-'),
  multiplyInt: ints('*'),
  divideInt: dividing('div'),
  moduloInt: dividing('mod'),
  negateInt: (a) => int64(`-(${a})::numeric`),
  addDouble: doubles('+'),
  subtractDouble: doubles('-'),
  multiplyDouble: doubles('*'),
  divideDouble: doubles('/'),
  negateDouble: (a) => `(-(${a}))`,
  addText: (a, b) => `(${a} || ${b})`,
  addSpan: (a, b) => moment(`${a} + ${b}`),
  addMoment: (a, b) => moment(`${a} + ${b}`),
  addSpans: (a, b) => span(`${a} + ${b}`),
  subtractMoment: (a, b) => span(`${a} - ${b}`),
  subtractSpan: (a, b) => moment(`${a} - ${b}`),
  subtractSpans: (a, b) => span(`${a} - ${b}`),
  spanHours: spanPart(3_600_000_000),
  spanMinutes: spanPart(60_000_000),
  spanSeconds: spanPart(1_000_000),
  spanMilliseconds: (a) => `mod(div(${a}, 1000), 1000)`,
  startsWith: (a, b) => `starts_with(${a}, ${b})`,
  endsWith: (a, b) => once(`right(a.x, length(a.y)) = a.y`, a, b),
  contains: (a, b) => `(strpos(${a}, ${b}) > 0)`,
  lowerAscii: (a) => `translate(${a}, '${capitals}', '${small}')`,
  upperAscii: (a) => `translate(${a}, '${small}', '${capitals}')`,
  sizeOfText: (a) => `char_length(${a})`,
  intOfInt: same,
  intOfDouble: (a) => once('case when abs(a.x) < 9.2e18::float8 then trunc(a.x)::int8 end', a),
  intOfMoment: (a) => `div(${a}, 1000000)`,
  doubleOfDouble: same,
  doubleOfInt: (a) => `(${a})::float8`,
  textOfText: same,
  textOfInt: (a) => `(${a})::text`,
  textOfBool: (a) => `(${a})::text`,
  boolOfBool: same,
  momentOfMoment: same,
  spanOfSpan: same,
  momentOfInt: (a) => moment(`(${a})::numeric * 1000000`),
  ip: addressOf,
  ipaddress: addressOf,
  isIP: (a) => `(${a} ~ '${addressPattern}')`,
  cidr: networkOf,
  family: (a) => `family(${a})`,
  containsIP: within,
  containsIPText: (network, address) => within(network, addressOf(address)),
  containsCIDR: within,
  inCidr: (address, network) => within(network, address),
  inCidrText: (address, network) => within(networkOf(network), address),
};

const extracted: Readonly<Record<MomentPart, string>> = {
  // The year before 1 is 0, and not -1.
  getFullYear: 'extract(year from a.x) + (extract(year from a.x) < 0)::int',
  getMonth: 'extract(month from a.x) - 1',
  getDate: 'extract(day from a.x)',
  getDayOfMonth: 'extract(day from a.x) - 1',
  getDayOfWeek: 'extract(dow from a.x)',
  getDayOfYear: 'extract(doy from a.x) - 1',
  getHours: 'extract(hour from a.x)',
  getMinutes: 'extract(minute from a.x)',
  getSeconds: 'trunc(extract(second from a.x))',
  getMilliseconds: 'mod(trunc(extract(milliseconds from a.x)), 1000)',
};

/** A part of a moment that is given in microseconds, `minutes` east of Greenwich. */
export const momentPartSql = (part: MomentPart, micros: string, minutes: number): string =>
  once(
    extracted[part],
    once(
      `timestamp 'epoch' + make_interval(secs => (a.x - mod(a.x, 1000000))::float8 / 1000000) + make_interval(secs => mod(a.x, 1000000)::float8 / 1000000)`,
      `(${micros}) + ${minutes * 60_000_000}`,
    ),
  );

export const functionSql = (id: FunctionId): ToSql | undefined => general[id];

/** The part that a function is about, and whether its zone is an argument. */
export function momentPartOf(
  id: FunctionId,
): { readonly part: MomentPart; readonly zoned: boolean } | undefined {
  const part = momentParts.find((one) => one === id || `${one}In` === id);
  return part && { part, zoned: part !== id };
}
