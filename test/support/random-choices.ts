/** Rules about known lists and maps of which the record chooses a value, and those lists and maps. */
import type { Random } from './random-numbers.ts';

/** Maps and lists that are known, of which a record chooses: values that JSON in a table would not keep. */
export const knownTypes = {
  kmi: 'map<int>',
  kmd: 'map<double>',
  kmb: 'map<bool>',
  kms: 'map<string>',
  kmt: 'map<timestamp>',
  kmu: 'map<duration>',
  kma: 'map<ip>',
  kmn: 'map<cidr>',
  kmj: 'map<json>',
  kmm: 'map<map<int>>',
  kml: 'map<list<string>>',
  kmo: 'map<list<timestamp>>',
  kmk: 'map<list<json>>',
  kli: 'list<int>',
  klt: 'list<timestamp>',
  klj: 'list<json>',
} as const;

const fine = ['2026-03-29T01:30:15.125001Z', '2026-03-29T01:30:15.125Z', '0001-01-01T00:00:00Z'];
const limits = [2 ** 53 - 1, 0, -1, 2];
const keyed = <T>(items: readonly T[]): readonly Readonly<Record<string, T>>[] => [
  {},
  { a: items[0] as T, B: items[1] as T, '': items[2 % items.length] as T, ab: items[0] as T },
  { b: items[1] as T, a: items[1] as T, null: items[0] as T, 'é😀': items[2 % items.length] as T },
];
export const knownValues: Readonly<Record<keyof typeof knownTypes, readonly unknown[]>> = {
  kmi: keyed(limits),
  kmd: keyed([0.5, -1.5, 1e200]),
  kmb: keyed([true, false]),
  kms: keyed(['a', '', "q'\\"]),
  kmt: keyed(fine),
  kmu: keyed(['0.000001s', '1h', '-90m']),
  kma: keyed(['10.0.0.7', '::1', '192.168.1.1']),
  kmn: keyed(['10.0.0.0/8', '10.0.0.7/32', '2001:db8::/32']),
  kmj: [...keyed([null, 'a', 1]), ...keyed<unknown>([['a', null], { x: null, y: 'a' }, true])],
  kmm: keyed([{ a: 2 ** 53 - 1 }, { B: 0, '': 2 }, {}]),
  kml: keyed([['a', ''], [], ['B', 'é😀']]),
  kmo: keyed([fine, [], fine.slice(1)]),
  kmk: keyed<unknown>([[null, 'a', 1], [{ x: 1 }, ['a']], []]),
  kli: [[], limits, [2]],
  klt: [[], fine, fine.slice(1)],
  klj: [[], [null, 'a', 1, true], [{ x: 'a' }, ['a', 1], null]],
};

/** Whole numbers beyond those of JSON, moments below a millisecond, and nothing. */
const literalMaps = {
  int: "{'a': 9007199254740993, 'B': 9007199254740992, '': -9223372036854775807, 'ab': pi}",
  double: "{'a': 9007199254740993 + 0, 'B': 0.1, '': pd}",
  timestamp:
    "{'a': timestamp('2026-03-29T01:30:15.125001Z'), 'B': pt, '': timestamp('9999-12-31T23:59:59.999999Z')}",
  nothing: "{'a': null, 'B': null}",
} as const;

/** A question of values among which the record chooses. */
export function chosenRule(random: Random, of: (kind: string) => string): string {
  const leaf = (...choices: readonly string[]): string => random.pick(choices);
  const make = (...choices: readonly (() => string)[]): string => random.pick(choices)();
  const key = (): string =>
    random.chance(0.7)
      ? leaf('record.s', 'record.t', 'record.seo.slug', 'record.tags[0]')
      : of('string');
  const same = (): string => leaf('==', '!=');
  const some = (): string => leaf('exists', 'all');
  const texts = (): string =>
    make(
      () => `kml[${key()}]`,
      () => `(${of('bool')} ? kml[${key()}] : pl)`,
    );
  return make(
    () => `(kmi[${key()}] ${leaf('==', '!=', '<', '>=')} ${of(leaf('int', 'double', 'int'))})`,
    () =>
      `(${literalMaps.int}[${key()}] ${leaf('==', '<')} ${leaf('9007199254740992', 'kmi[record.t]', 'record.big', of('double'))})`,
    () =>
      `(${literalMaps.double}[${key()}] ${leaf('==', '<')} ${leaf('9007199254740993', '9007199254740992', of('double'))})`,
    () => `(${literalMaps.timestamp}[${key()}] ${leaf('==', '!=', '<=')} ${of('timestamp')})`,
    () => `(${literalMaps.timestamp}[${key()}] - ${of('timestamp')} > duration('0.000001s'))`,
    () => `(${literalMaps.nothing}[${key()}] ${same()} ${leaf('null', of('field'), of('json'))})`,
    () => `(kmd[${key()}] ${leaf('==', '<')} ${of(leaf('double', 'int', 'json'))})`,
    () => `(kmb[${key()}] ${leaf('==', '&&', '||')} ${of('bool')})`,
    () => `kmb[${key()}]`,
    () => `(kms[${key()}] ${leaf('==', '!=', '<')} ${of('string')})`,
    () => `kms[${key()}].${leaf('startsWith', 'contains')}(${of('string')})`,
    () =>
      `(kmt[${key()}] ${leaf('==', '!=', '<', '>=')} ${leaf('kmt[record.t]', 'klt[1]', of('timestamp'))})`,
    () => `(kmt[${key()}].getMilliseconds() == 125)`,
    () => `(kmu[${key()}] ${leaf('==', '<')} ${of('duration')})`,
    () => `(kma[${key()}] ${same()} ${leaf('pip', `ip(${of('string')})`, 'kma[record.t]')})`,
    () => `kmn[${key()}].containsIP(${leaf('pip', 'kma[record.t]', of('string'))})`,
    () =>
      `(kmj[${key()}] ${same()} ${leaf('null', 'kmj[record.t]', of(leaf('string', 'int', 'json')))})`,
    () => `(kmj[${key()}]${leaf('.x', "['y']")} ${same()} ${leaf('null', of('string'))})`,
    () => `(kmj[${key()}] ${leaf('<', '>=')} ${of(leaf('string', 'double'))})`,
    () => `has(${leaf('kmj', 'kmm')}[${key()}].${leaf('x', 'a')})`,
    () => `(kmj[${key()}] in ${leaf('record.tags', 'record.meta.l', 'pl', 'klj', "['a', '']")})`,
    () => `kmj[${key()}].${some()}(x, x == ${leaf('null', of('string'))})`,
    () => `(kmm[${key()}]${leaf(`[${key()}]`, '.a', '.B')} ${leaf('==', '<')} ${of('int')})`,
    () => `(${key()} in ${leaf(`kmm[${key()}]`, 'kmm', 'kmn', 'kmt', 'kmj')})`,
    () => `('a' in kmm[${key()}])`,
    () => `(kmm[${key()}] ${same()} ${leaf('kmm[record.t]', "{'a': 9007199254740991}")})`,
    () =>
      `(size(${leaf('kmm', 'kml', 'kmo', 'kmk')}[${key()}]) ${leaf('==', '>')} ${leaf('1', '2', 'record.i')})`,
    () => `(${of('string')} in ${texts()})`,
    () => `(${texts()} ${same()} ${leaf('record.tags', 'pl', 'kml[record.t]', "['B', 'é😀']")})`,
    () => `(${texts()}[${leaf('0', '1', 'pi', 'record.i')}] ${same()} ${of('string')})`,
    () => `${texts()}.${some()}(x, x ${leaf('==', '!=', '<')} ${of('string')})`,
    () => `${texts()}.${some()}(x, kmi[x] ${leaf('==', '<')} ${of('int')})`,
    () => `(${texts()}.${leaf("filter(x, x != 'a')", "map(x, x + 'b')")} == record.tags)`,
    () => `(${texts()}.join(',') ${same()} ${of('string')})`,
    () => `((${texts()} + pl).size() > 2)`,
    () => `(${of('timestamp')} in ${leaf(`kmo[${key()}]`, 'klt')})`,
    () =>
      `kmo[${key()}].${some()}(x, x ${leaf('==', '<')} ${leaf('kmt[record.t]', of('timestamp'))})`,
    () => `(${leaf(`kmo[${key()}]`, 'klt', '[pt]')} ${same()} record.days)`,
    () =>
      `(record.days[${leaf('0', '1', 'pi')}] ${leaf('==', '<', '!=')} ${leaf(`kmt[${key()}]`, of('timestamp'), 'null')})`,
    () =>
      `record.days.${leaf('exists', 'all', 'exists_one')}(x, x ${leaf('in klt', '== pt', '< klt[1]', `<= kmt[${key()}]`, `in kmo[${key()}]`)})`,
    () => `(${of('json')} in ${leaf(`kmk[${key()}]`, 'klj', 'kli', '[9007199254740993]')})`,
    () => `kmk[${key()}].${some()}(x, x ${same()} ${leaf('null', of('string'), of('json'))})`,
    () =>
      `(${leaf('kli', 'klt', 'klj', 'pl')}[record.i] == ${leaf('null', 'kli[0]', 'klt[1]', 'klj[record.i]', of('string'))})`,
    () => `([9007199254740993, 2, pi][record.i] == ${leaf('9007199254740992', '2', 'record.big')})`,
    () => `${leaf('klt', '[pt, now]')}.${some()}(x, x ${leaf('==', '<', '!=')} ${of('timestamp')})`,
    () => `klj.${some()}(x, x ${same()} ${leaf('null', of('json'), of('string'))})`,
    () =>
      `(${leaf('9007199254740993', '9007199254740992')} in ${leaf('record.nums', 'record.meta.l', '[record.big, record.i]')})`,
    () => `record.tags.${some()}(x, kmi[x] > ${of('int')})`,
    () => `record.tags.exists(x, kml[x].${some()}(y, y ${same()} ${of('string')}))`,
    () => `((${of('bool')} ? kmm : {'a': {'a': 9007199254740993}})[${key()}].a == ${of('int')})`,
    () =>
      `((${of('bool')} ? kmj[${key()}] : ${leaf('pj', 'null')}) ${same()} ${leaf('null', of('string'), 'record.meta')})`,
    () => `((${of('bool')} ? null : null) ${same()} ${of('field')})`,
    () => `((${of('bool')} ? kmi[${key()}] : kli[record.i]) ${leaf('==', '<')} ${of('int')})`,
  );
}
