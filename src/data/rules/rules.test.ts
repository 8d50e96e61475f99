import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import type { Field } from '../schema/language/field.ts';
import { ruleEnvironment } from './environment.ts';
import { compileRule, inputsFrom, ruleProblem } from './rule.ts';
import { RuleError } from './syntax.ts';
import { type RuleType, readType } from './types.ts';
import { type RuleValue, readValue, ValueError } from './values.ts';

const plain = { required: false, unique: false, hidden: false, indexed: false } as const;
const record = new Map<string, Field>([
  ['status', { kind: 'string', ...plain }],
  ['author', { kind: 'objectId', ...plain }],
  ['team', { kind: 'relation', model: 'Team', onDelete: 'restrict', ...plain }],
  ['tags', { kind: 'array', items: { kind: 'string', ...plain }, ...plain }],
  ['price', { kind: 'number', storage: 'numeric', integer: false, ...plain }],
  ['publishAt', { kind: 'date', ...plain }],
]);
const typeOf = (name: string): RuleType => readType(name) as RuleType;
const parameters = new Map([
  ['grantedAt', typeOf('timestamp')],
  ['lasts', typeOf('duration')],
  ['user_ip', typeOf('ipaddress')],
  ['limits', typeOf('map<int>')],
  ['a', typeOf('bool')],
  ['b', typeOf('bool')],
]);
const environment = ruleEnvironment({ parameters, record });

function problem(text: string): string {
  try {
    compileRule(text, environment);
  } catch (error) {
    if (error instanceof RuleError) {
      const { rule, message } = ruleProblem(text, error, 'rule');
      return `${rule}: ${message}`;
    }
    throw error;
  }
  return 'none';
}

const given = (values: Readonly<Record<string, unknown>>): ReadonlyMap<string, RuleValue> =>
  new Map(
    Object.entries(values).map(([name, value]) => {
      const type = name === 'now' ? typeOf('timestamp') : parameters.get(name);
      return [name, type ? readValue(type, value, name) : (value as RuleValue)];
    }),
  );

const ask = (text: string, values: Readonly<Record<string, unknown>>, row = {}) =>
  compileRule(text, environment).evaluate(inputsFrom(given(values)), row);

describe('rules', () => {
  it('are refused when they are declared, with the place', () => {
    const problems = {
      'record.nope == 1': 'field: line 1, column 7: "nope" is not a field that rules can use',
      'record.sttaus == "a"':
        'field: line 1, column 7: "sttaus" is not a field that rules can use: did you mean status?',
      'record.team.name == "a"':
        'field: line 1, column 12: "team" is the id of another record, into which rules don\'t look: take a relation from the field ({ "from": "team" }), and give the right by an action of that record ("team->read")',
      'record.price > 1':
        'field: line 1, column 7: "price" holds what rules do not compare: exact decimals, vectors, or whole numbers of 64 bits inside of a field',
      'record.status > 3': 'type: line 1, column 15: string and int have no order',
      'true &&\n  reccord.status == "a"':
        'name: line 2, column 3: "reccord" is not known here: there are now, caller, grantedAt, lasts, user_ip, limits, a, b, record',
      'record.status': 'type: line 1, column 7: a rule must be true or false, and this is string',
      'record.tags.map(t, t + "x") == ["ax"]':
        "sql: line 1, column 29: these lists are not compared, so that it can't be part of a query",
      'record.tags[size(record.status)] == "a"':
        "sql: line 1, column 13: a place in a list of the record is taken from the record: use exists(), so that it can't be part of a query",
      '{"a": ["b"]}[record.status].exists_one(t, t == record.author)':
        "sql: line 1, column 28: exists_one() of a known list looks at the record, as exists() and all() may, so that it can't be part of a query",
      'record.status.split(",").size() > 1':
        "sql: line 1, column 14: the size of this list is not computed, so that it can't be part of a query",
      'record.status.matches("(?=a)")': 'pattern: line 1, column 23: ',
      'record.status.matches(record.author)':
        'pattern: line 1, column 29: matches() takes a pattern that is written in the rule',
      'size(record.status) > --9223372036854775808':
        'type: line 1, column 25: is beyond the whole numbers of 64 bits',
      'size(["a"] + [1]) > 1':
        'type: line 1, column 12: list<string> and list<int> do not make one list',
      'record.tags.exists(a, record.tags.exists(b, record.tags.exists(c, a == c)))':
        'depth: line 1, column 56: lists are gone through at most 2 within each other',
      'limits["a"] > 1e999': 'type: line 1, column 15: is beyond the numbers of rules',
      'grantedAt + 1 < now': 'type: line 1, column 11: the operator + does not take timestamp, int',
      'record.publishAt.getHours("Europe/Berlin") > 8':
        "sql: line 1, column 27: only UTC and offsets such as +02:00 are zones of fields, so that it can't be part of a query",
      'a &&': 'syntax: line 1, column 3: ',
      '': 'required: line 1, column 1: must not be empty',
    };
    for (const [text, expected] of Object.entries(problems))
      expect([text, problem(text).slice(0, expected.length)]).toEqual([text, expected]);
  });

  it('say which of their parts never have a value', () => {
    const wrong = (text: string) =>
      compileRule(text, environment)
        .valueless()
        .map((error) => ruleProblem(text, error, 'rule').message);
    expect(wrong('cidr("10.0.0.0/33").containsIP(user_ip)')).toEqual([
      'line 1, column 6: "10.0.0.0/33" must be a network such as 192.0.2.0/24',
    ]);
    expect(wrong('ip(record.status).in_cidr("10.0.0.0/99")')).toEqual([
      'line 1, column 27: "10.0.0.0/99" must be a network such as 192.0.2.0/24',
    ]);
    expect(wrong('a || record.publishAt < timestamp("2026-02-30T00:00:00Z")')).toEqual([
      'line 1, column 35: "2026-02-30T00:00:00Z" must be a moment such as 2026-01-31T12:00:00Z',
    ]);
    expect(wrong('size(record.status) > 1 / 0 + 1')).toEqual([
      'line 1, column 25: never has a value: it divides by zero, or leaves the range of its type',
    ]);
    expect(wrong('{"a": 1}["b"] == 1')).toEqual([
      'line 1, column 9: never has a value: there is no such entry',
    ]);
    for (const right of [
      'limits["b"] / 0 == 1',
      '{"a": 1}[record.status] == 1',
      'ip(record.status) == user_ip',
    ])
      expect([right, wrong(right)]).toEqual([right, []]);
  });

  it('have bounds: of text, of brackets, of operators, and of the query that they become', () => {
    expect(problem(`a || ${'a'.repeat(2_000)}`)).toMatch(/^maxLength/);
    expect(problem(`${'('.repeat(40)}a${')'.repeat(40)}`)).toMatch(/^depth/);
    expect(problem(`a${' && a'.repeat(200)}`)).toMatch(/^size/);
    const doubling = Array.from({ length: 30 }).reduce<string>(
      (inner) => `((${inner}) == (record.status == "x"))`.replaceAll('((', '('),
      'record.status == "y"',
    );
    expect(problem(doubling)).toMatch(/^(size|depth|syntax)/);
  });

  it('end before lists and texts of a request multiply, by the size of what they make', () => {
    const type = typeOf('list<string>');
    const own = ruleEnvironment({ parameters: new Map([['names', type]]) });
    const names = Array.from({ length: 300 }, () => 'x'.repeat(200));
    const given = inputsFrom(new Map([['names', readValue(type, names, 'names')]]));
    const asked = (text: string) => compileRule(text, own).evaluate(given).holds;
    expect(() => asked('names.map(n, names.join(",")).size() > 1')).toThrow(/too expensive/);
    expect(asked('names.all(n, n in names) && names.join(",").size() > 1')).toBe(true);
  });

  it('compare times, spans, addresses, texts and maps', () => {
    const grant = { grantedAt: '2026-01-01T00:00:00Z', lasts: '1h' };
    const at = 'now < grantedAt + lasts';
    expect(ask(at, { ...grant, now: '2026-01-01T00:59:59Z' }).holds).toBe(true);
    expect(ask(at, { ...grant, now: '2026-01-01T01:00:00Z' }).holds).toBe(false);
    expect(ask('user_ip.in_cidr("192.168.0.0/24")', { user_ip: '192.168.0.9' }).holds).toBe(true);
    expect(ask('user_ip.in_cidr("192.168.0.0/24")', { user_ip: '192.168.1.9' }).holds).toBe(false);
    expect(ask('limits["a"] > 3 && "b" in limits', { limits: { a: 4, b: 1 } }).holds).toBe(true);
    expect(ask('record.tags.exists(t, t.startsWith("x"))', {}, { tags: ['a', 'xy'] }).holds).toBe(
      true,
    );
  });

  it('say which values are missing, and only where the answer hangs on them', () => {
    expect(ask('a && b', { a: true })).toEqual({ holds: false, possible: true, missing: ['b'] });
    expect(ask('a && b', { a: false })).toEqual({ holds: false, possible: false, missing: [] });
    expect(ask('b && a', { a: false })).toEqual({ holds: false, possible: false, missing: [] });
    expect(ask('a || b', { b: true })).toEqual({ holds: true, possible: true, missing: [] });
    expect(ask('!(a || b)', { b: true })).toEqual({ holds: false, possible: false, missing: [] });
    expect(ask('a ? b : false', {})).toEqual({ holds: false, possible: true, missing: ['a', 'b'] });
    expect(ask('a ? b : b', { b: true })).toEqual({ holds: false, possible: true, missing: ['a'] });
    // Whatever the missing value is, nothing divides by zero.
    expect(ask('b && 1 / 0 == 1', {})).toEqual({ holds: false, possible: true, missing: [] });
  });

  it('have no answer for nobody: what is null in a record is not the id of a visitor', () => {
    const rule = compileRule('record.author == caller.id', environment);
    const visitor = (name: string) => (name === 'caller.id' ? ('error' as const) : undefined);
    expect(rule.evaluate(visitor, { author: null })).toEqual({
      holds: false,
      possible: true,
      missing: [],
    });
    expect(rule.predicate(visitor, { alias: 'r', next: String }).sql).toBe('null::boolean');
  });

  it('take values of known maps by a field: scalars in one parameter, whatever their number', () => {
    const many = (value: unknown) =>
      Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`region ${i}`, value]));
    const asked = (text: string, type: string, value: unknown) => {
      const own = new Map([['own', typeOf(type)]]);
      const rule = compileRule(text, ruleEnvironment({ parameters: own, record }));
      const values: unknown[] = [];
      const next = (one: unknown) => `$${values.push(one)}`;
      const known = inputsFrom(new Map([['own', readValue(typeOf(type), value, 'own')]]));
      return { values, sql: rule.predicate(known, { alias: 'r', next }).sql };
    };
    const scalars = asked('size(record.status) < own[record.status]', 'map<int>', many(3));
    expect(scalars.sql).toBe('(char_length(r."status") < (($1::jsonb ->> r."status")::bigint))');
    expect(scalars.values).toHaveLength(1);
    const lists = 'record.status in own[record.status]';
    expect(asked(lists, 'map<list<string>>', { a: ['b'] }).values).toHaveLength(2);
    expect(() => asked(lists, 'map<list<string>>', many(['b']))).toThrow(/too large a query/);
  });

  it('tell ids that stand in the rule from ids in the record', () => {
    const of = (text: string) => compileRule(text, environment).comparedWith('caller.id');
    expect(of('caller.id in record.tags')).toMatchObject({ texts: [], only: true });
    for (const text of [
      'caller.id in {"a": ["b"]}[record.status]',
      'caller.id == {"a": "b"}[record.status]',
      'caller.id in ["b"]',
      'caller.id != "b" && "b" == caller.id',
    ])
      expect([text, of(text)]).toEqual([text, { places: [], texts: ['b'], only: true }]);
    expect(of('caller.id in ["b", record.status]')).toEqual({
      places: [{ field: 'status', path: '$' }],
      texts: ['b'],
      only: true,
    });
    for (const text of [
      '{"a": ["b"]}[record.status].exists(id, id == caller.id)',
      'caller.id in {"a": "b"}',
      'caller.id < "b"',
    ])
      expect([text, of(text)]).toMatchObject([text, { places: [], only: false }]);
  });

  it('take only values of their types', () => {
    const wrong: readonly (readonly [string, unknown])[] = [
      ['int', '5'],
      ['int', 1.5],
      ['double', '1'],
      ['timestamp', '2026-02-30T00:00:00Z'],
      ['duration', '1 day'],
      ['ip', '10.0.0'],
      ['cidr', '10.0.0.0/33'],
      ['list<int>', [1, 'x']],
      ['map<string>', ['a']],
      ['bool', null],
      ['string', 'a\u0000b'],
    ];
    for (const [type, value] of wrong)
      expect(() => readValue(typeOf(type), value, 'x'), type).toThrow(ValueError);
    expect(readType('list<list<list<list<list<int>>>>>')).toBeUndefined();
    expect(readType('object')).toBeUndefined();
  });

  it('take IPv4 addresses that are written as IPv6 for what they are', () => {
    const isInOffice = (address: string, office = '10.0.0.0/8') =>
      ask(`user_ip.in_cidr("${office}") && user_ip == ip("10.1.1.1")`, { user_ip: address }).holds;
    for (const written of [
      '::ffff:10.1.1.1',
      '::FFFF:a01:101',
      '0:0:0:0:0:ffff:10.1.1.1',
      '0::ffff:10.1.1.1',
    ])
      expect([written, isInOffice(written)]).toEqual([written, true]);
    expect(isInOffice('::ffff:10.1.1.1', '::ffff:10.0.0.0/104')).toBe(true);
    expect(isInOffice('10.1.1.1', '::ffff:0:0/96')).toBe(true);
    expect(isInOffice('10.1.1.1', '::ffff:10.0.0.0/95')).toBe(false);
    expect(isInOffice('::ffff:11.1.1.1')).toBe(false);
    for (const wrong of [
      '::ffff:10.1.1',
      '::ffff:10.1.1.256',
      '::fffe:10.1.1.1',
      '::ffff:10.1.1.1:1',
    ])
      expect(() => readValue(typeOf('ip'), wrong, 'x'), wrong).toThrow(ValueError);
  });

  it('use indexes: equality of a column stays an equality', () => {
    const rule = compileRule('record.status == "a" || record.author == caller.id', environment);
    const values: unknown[] = [];
    const next = (value: unknown) => `$${values.push(value)}`;
    const { sql } = rule.predicate(
      inputsFrom(given({ 'caller.id': '00000000-0000-7000-8000-000000000001' })),
      { alias: 'r', next },
    );
    expect(sql).toBe(
      '((r."status" = $1::text and r."status" is not null) or (r."author" = $2::uuid and r."author" is not null))',
    );
  });

  it('take what the guide shows', async () => {
    const guide = await readFile(
      new URL('../../../docs/guides/permissions.md', import.meta.url),
      'utf8',
    );
    const table = guide.slice(
      guide.indexOf('| You may use |'),
      guide.indexOf('What is not there is null.'),
    );
    const examples = [
      ...table.matchAll(
        /`((?:record|caller|now|cidr|'a'|\{')[^`]*[=<>)][^`]*|'a' in [^`]*|caller\.id in [^`]*)`/g,
      ),
    ]
      .map(([, text = '']) => text)
      .filter((text) => !text.startsWith('record.<'));
    expect(examples.length).toBeGreaterThan(6);
    const text: Field = { kind: 'string', ...plain };
    const price: Field = { kind: 'number', storage: 'double precision', integer: false, ...plain };
    const line: Field = { kind: 'object', fields: new Map([['price', price]]), ...plain };
    const documented = ruleEnvironment({
      parameters: new Map([['address', typeOf('ip')]]),
      record: new Map<string, Field>([
        ...record,
        ['region', text],
        ['amount', price],
        ['address', { kind: 'object', fields: new Map([['city', text]]), ...plain }],
        ['meta', { kind: 'json', ...plain }],
        ['members', { kind: 'array', items: text, ...plain }],
        ['start', { kind: 'date', ...plain }],
        ['lines', { kind: 'array', items: line, ...plain }],
      ]),
    });
    for (const example of examples)
      expect(() => compileRule(example, documented), example).not.toThrow();
  });
});
