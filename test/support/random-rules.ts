/** Random rules in CEL, rows to ask them of, and values that they need. The same ones for the same seed. */
import { type RuleType, readType } from '../../src/data/rules/types.ts';
import { type RuleValue, readValue } from '../../src/data/rules/values.ts';
import { chosenRule, knownTypes, knownValues } from './random-choices.ts';
import type { Random } from './random-numbers.ts';

export type Json = Record<string, unknown>;

export const fields = {
  s: 'String',
  t: 'String',
  n: 'Number',
  i: { type: 'Number', sqlType: 'INT' },
  big: { type: 'Number', sqlType: 'BIGINT' },
  b: 'Boolean',
  d: 'Date',
  e: 'Date',
  o: 'ObjectId',
  tags: ['String'],
  nums: ['Number'],
  seo: { slug: 'String', rank: 'Number', at: 'Date', on: 'Boolean', words: ['String'] },
  lines: [{ price: 'Number', name: 'String' }],
  days: ['Date'],
  meta: 'JSON',
  author: { type: 'Relation', model: 'Author' },
  friends: [{ type: 'Relation', model: 'Author' }],
} as const;

const texts = [
  '',
  'a',
  'ab',
  'B',
  'b%',
  '_',
  "q'\\",
  'é😀',
  '10.0.0.7',
  '2001:db8::1',
  '10.0.0.0/8',
  '::ffff:10.0.0.7',
  '::FFFF:a00:0/104',
];
const doubles = [-1.5, 0, 0.5, 1, 2, 1e200, -1e-200, 3e150, 1.7e308];
const wholes = [-7, -1, 0, 1, 2, 3, 2_147_483_647];
const moments = [
  '2026-01-01T00:00:00.000Z',
  '2026-03-29T01:30:15.125Z',
  '0001-01-01T00:00:00.000Z',
  '9999-12-31T23:59:59.999Z',
];
const ids = [0, 1, 2].map((n) => `00000000-0000-7000-8000-00000000000${n}`);
const free = [
  ['a', 1, 2.5, true, null, ['a', 1], { x: 'a', y: 1, z: null, l: ['a', 2] }, { x: 2 }],
  // Parts of what stands beside them in a list.
  [{}, [], { x: { a: 1 }, l: [{ a: 1, b: 2 }, null] }, { x: ['a'], l: [['a', 1]] }],
  // Beyond the whole numbers of JSON.
  [2 ** 53, { x: 2 ** 60, y: 1e21, l: [2 ** 53, 0.1] }],
].flat();

export function rowOf(random: Random, authors: readonly string[]): Json {
  const maybe = <T>(make: () => T): T | null => (random.chance(0.2) ? null : make());
  const some = <T>(items: readonly T[]): T[] =>
    [0, 1, 2].flatMap(() => (random.chance(0.5) ? [random.pick(items)] : []));
  return {
    s: maybe(() => random.pick(texts)),
    t: maybe(() => random.pick(texts)),
    n: maybe(() => random.pick(doubles)),
    i: maybe(() => random.pick(wholes)),
    big: maybe(() => random.pick([...wholes, 2 ** 53 - 1, -(2 ** 53) + 1])),
    b: maybe(() => random.chance(0.5)),
    d: maybe(() => random.pick(moments)),
    e: maybe(() => random.pick(moments)),
    o: maybe(() => random.pick(ids)),
    tags: maybe(() => some(texts)),
    nums: maybe(() => some([0, 1, 2.5])),
    seo: maybe(() => ({
      slug: maybe(() => random.pick(texts)),
      rank: maybe(() => random.pick(doubles)),
      at: maybe(() => random.pick(moments)),
      on: maybe(() => random.chance(0.5)),
      words: maybe(() => some(texts)),
    })),
    lines: maybe(() =>
      some([0, 1]).map(() => ({
        price: maybe(() => random.pick(doubles)),
        name: maybe(() => random.pick(texts)),
      })),
    ),
    days: maybe(() => some(moments)),
    meta: maybe(() => random.pick(free)),
    author: maybe(() => random.pick(authors)),
    friends: maybe(() => some(authors)),
  };
}

export const parameters = new Map<string, RuleType>(
  Object.entries({
    ...knownTypes,
    ps: 'string',
    pi: 'int',
    pd: 'double',
    pb: 'bool',
    pt: 'timestamp',
    pu: 'duration',
    pip: 'ip',
    pnet: 'cidr',
    pl: 'list<string>',
    pn: 'list<int>',
    pm: 'map<int>',
    pj: 'json',
  }).map(([name, type]) => [name, readType(type) as RuleType]),
);

export function inputValues(
  random: Random,
  authors: readonly string[],
): ReadonlyMap<string, RuleValue> {
  const given: Record<string, readonly unknown[]> = {
    ps: [...texts, ...authors],
    pi: wholes,
    pd: doubles,
    pb: [true, false],
    pt: moments,
    pu: ['1h', '-90m', '0s', '1.5s', '86400s'],
    pip: ['10.0.0.7', '192.168.1.1', '2001:db8::1', '::1', '::ffff:192.168.1.1'],
    pnet: ['10.0.0.0/8', '10.0.0.7/32', '0.0.0.0/0', '2001:db8::/32', '192.168.0.9/16'],
    pl: [[], ['a'], ['a', 'é😀', ''], [...authors]],
    pn: [[], [1], [1, 2, -7]],
    pm: [{}, { a: 1 }, { a: 2, B: -1, '': 0 }],
    pj: free,
    ...knownValues,
  };
  const values = new Map<string, RuleValue>([
    ['now', readValue({ kind: 'timestamp' }, moments[1], 'now')],
  ]);
  for (const [name, type] of parameters)
    if (!random.chance(0.15))
      values.set(name, readValue(type, random.pick(given[name] ?? []), name));
  if (!random.chance(0.15)) values.set('caller.id', random.pick(authors));
  values.set('caller.type', 'User');
  const lists = [[], ['a'], ['user', 'a', 'é😀'], [...authors]];
  for (const name of ['caller.roles', 'caller.teams'])
    if (!random.chance(0.15))
      values.set(name, readValue(readType('list<string>') as RuleType, random.pick(lists), name));
  return values;
}

/** A random rule of a type, as text. */
export function ruleOf(random: Random, type: string, depth: number): string {
  const of = (kind: string): string => ruleOf(random, kind, depth - 1);
  const leaf = (...choices: readonly string[]): string => random.pick(choices);
  const quoted = (): string => JSON.stringify(random.pick(texts)).replaceAll('$', '');
  const make = (...choices: readonly (() => string)[]): string => random.pick(choices)();
  switch (type) {
    case 'bool':
      if (depth <= 0)
        return leaf('record.b', 'record.seo.on', 'true', 'false', 'pb', 'record.s == null');
      return make(
        () => `(${of('bool')} && ${of('bool')})`,
        () => `(${of('bool')} || ${of('bool')})`,
        () => `!(${of('bool')})`,
        () => chosenRule(random, of),
        () => chosenRule(random, of),
        () => `!(${chosenRule(random, of)})`,
        () => `(${of('bool')} ? ${of('bool')} : ${of('bool')})`,
        () => {
          const kind = leaf('string', 'int', 'double', 'timestamp', 'bool', 'duration');
          return `(${of(kind)} ${leaf('==', '!=')} ${of(kind)})`;
        },
        () => {
          const kind = leaf('string', 'int', 'double', 'timestamp', 'bool', 'duration');
          return `(${of(kind)} ${leaf('<', '<=', '>', '>=')} ${of(kind)})`;
        },
        () => `(${of('int')} ${leaf('<', '==', '>=')} ${of('double')})`,
        () => `(${of('json')} ${leaf('==', '!=')} ${of(leaf('string', 'int', 'bool', 'json'))})`,
        () => `(${of('json')} ${leaf('<', '>=')} ${of(leaf('string', 'double'))})`,
        () => `(${of(leaf('field', 'json'))} ${leaf('==', '!=')} null)`,
        () => `${of('string')}.${leaf('startsWith', 'endsWith', 'contains')}(${of('string')})`,
        () => `${of('string')}.matches(${leaf("'^a'", "'[0-9]+'", "'b.?$'", "'\\\\p{L}'")})`,
        () =>
          `(${of('string')} in ${leaf('record.tags', 'pl', "['a', '', 'B']", 'record.friends', 'record.seo.words', '[record.s, record.t]')})`,
        () => `(${of('int')} in ${leaf('pn', '[1, 2]', 'record.nums', '[record.i, record.big]')})`,
        () => `(${of('double')} in ${leaf('pn', '[1.0, 0.5]', 'record.nums')})`,
        () => `(${of('json')} in ${leaf('record.meta.l', "['a', 'b']", 'pl')})`,
        () => `(${of('json')} in ${leaf('record.meta.l', 'record.meta')})`,
        () =>
          `((${of('bool')} ? ${leaf('record.s', 'pl[0]')} : record.t) in ${leaf('record.tags', 'record.meta.l', 'pl')})`,
        () => `((${of('bool')} ? record.d : ${leaf('record.e', 'null')}) ${leaf('==', '!=')} null)`,
        () => `(${of('string')} in pm)`,
        () =>
          `has(${leaf('record.s', 'record.meta.x', 'record.seo.slug', 'pm.a', 'record.meta.l')})`,
        () =>
          `record.tags.${leaf('exists', 'all', 'exists_one')}(x, x ${leaf('==', '!=', '<')} ${of('string')})`,
        () => `(([] + pl).all(x, x != record.o) <= record.seo.on)`,
        () => `record.lines.exists(l, has(l.${leaf('name', 'price')}))`,
        () => `!record.lines.exists_one(l, ${of('bool')})`,
        () => `record.tags.exists(x, x.contains(${of('string')}) && ${of('bool')})`,
        () => `record.nums.${leaf('exists', 'all')}(x, x > ${of('double')})`,
        () =>
          `record.lines.${leaf('exists', 'all', 'exists_one')}(l, l.price ${leaf('<', '>', '==')} ${of('double')} || l.name == ${of('string')})`,
        () => `record.tags.exists(x, record.seo.words.all(y, y != x))`,
        () => `(${of('string')} in ${leaf('caller.roles', 'caller.teams')})`,
        () => `(${leaf('record.author', 'record.o', 'record.meta.x')} in caller.teams)`,
        () => `caller.roles.${leaf('exists', 'all')}(x, x in ${leaf('record.tags', 'pl')})`,
        () => `record.meta.l.exists(x, x == ${of(leaf('string', 'int'))})`,
        () => `pl.${leaf('exists', 'all')}(x, ${of('string')}.contains(x))`,
        () => `record.friends.exists(f, f == ${leaf('caller.id', 'record.author', 'ps')})`,
        () => `(record.tags == ${leaf('pl', "['a']", '[]')})`,
        () => `(record.author ${leaf('==', '!=', '<')} ${leaf('caller.id', 'ps', 'record.o')})`,
        () => `pnet.containsIP(${of('string')})`,
        () => `cidr(${of('string')}).containsIP(pip)`,
        () => `pip.in_cidr(${of('string')})`,
        () => `(ip(${of('string')}) == pip)`,
        () => `isIP(${of('string')})`,
      );
    case 'string':
      if (depth <= 0)
        return leaf(
          'record.s',
          'record.t',
          'record.seo.slug',
          'record.o',
          'record.author',
          'ps',
          'caller.id',
          'record.tags[0]',
          quoted(),
        );
      return make(
        () => ruleOf(random, 'string', 0),
        () => `(${of('string')} + ${of('string')})`,
        () => `${of('string')}.${leaf('lowerAscii', 'upperAscii')}()`,
        () => `string(${of(leaf('int', 'bool', 'json'))})`,
        () => `pl[${leaf('0', '1', 'pi')}]`,
      );
    case 'int':
      if (depth <= 0)
        return leaf(
          'record.i',
          'record.big',
          'pi',
          '0',
          '1',
          '-7',
          '9223372036854775807',
          '9007199254740993',
        );
      return make(
        () => ruleOf(random, 'int', 0),
        () => `(${of('int')} ${leaf('+', '-', '*', '/', '%')} ${of('int')})`,
        () => `(-${of('int')})`,
        () => `size(${of('string')})`,
        () => `size(${leaf('record.tags', 'record.friends', 'pl', 'record.meta.l', 'pm')})`,
        () => `int(${of('double')})`,
        () => `pm[${of('string')}]`,
        () =>
          `${of('timestamp')}.${leaf('getFullYear', 'getMonth', 'getDate', 'getDayOfMonth', 'getDayOfWeek', 'getDayOfYear', 'getHours', 'getMinutes', 'getSeconds', 'getMilliseconds')}(${leaf('', "'+05:30'", "'-11:00'", "'UTC'")})`,
        () =>
          `${of('duration')}.${leaf('getHours', 'getMinutes', 'getSeconds', 'getMilliseconds')}()`,
      );
    case 'double':
      if (depth <= 0)
        return leaf('record.n', 'record.seo.rank', 'pd', '0.0', '1.5', '-2.0', '1e160');
      return make(
        () => ruleOf(random, 'double', 0),
        () => `(${of('double')} ${leaf('+', '-', '*', '/')} ${of('double')})`,
        () => `(-${of('double')})`,
        () => `double(${of(leaf('int', 'json'))})`,
      );
    case 'timestamp':
      if (depth <= 0)
        return leaf(
          'record.d',
          'record.e',
          'record.seo.at',
          'pt',
          'now',
          'record.createdAt',
          `timestamp('${random.pick(moments)}')`,
        );
      return make(
        () => ruleOf(random, 'timestamp', 0),
        () => `(${of('timestamp')} ${leaf('+', '-')} ${of('duration')})`,
      );
    case 'duration':
      if (depth <= 0) return leaf('pu', "duration('1h30m')", "duration('-1s')");
      return make(
        () => ruleOf(random, 'duration', 0),
        () => `(${of('timestamp')} - ${of('timestamp')})`,
        () => `(${of('duration')} ${leaf('+', '-')} ${of('duration')})`,
      );
    case 'json':
      return leaf(
        'record.meta',
        'record.meta.x',
        "record.meta['y']",
        'record.meta.l',
        'pj',
        'record.meta.none',
        'pj.x',
      );
    default:
      return leaf(
        'record.s',
        'record.i',
        'record.d',
        'record.tags',
        'record.author',
        'record.seo',
        'record.seo.at',
        'record.lines',
      );
  }
}
