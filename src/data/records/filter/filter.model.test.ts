// Random conditions on a real table against an evaluator that is simple enough to be right.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { system } from '../../../kernel/caller.ts';
import {
  type Condition,
  equals,
  field as fieldOf,
  fieldTest,
  literal,
  type Operand,
  type Test,
} from '../../conditions/condition.ts';
import { compilePattern } from '../../schema/language/pattern/compile.ts';
import { PatternError } from '../../schema/language/pattern/syntax.ts';
import { postgresPattern } from './postgres-pattern.ts';

const admin = system('test');
type Json = Record<string, unknown>;

const fields = {
  s: 'String',
  n: 'Number',
  i: { type: 'Number', sqlType: 'INT' },
  big: { type: 'Number', sqlType: 'BIGINT' },
  exact: { type: 'Number', sqlType: 'DECIMAL' },
  b: 'Boolean',
  d: 'Date',
  o: 'ObjectId',
  tags: ['String'],
  nums: ['Number'],
  seo: { slug: 'String', rank: 'Number', at: 'Date', on: 'Boolean' },
  lines: [{ price: 'Number', name: 'String' }],
  meta: 'JSON',
  author: { type: 'Relation', model: 'Author' },
  friends: [{ type: 'Relation', model: 'Author' }],
} as const;

const ids = Array.from({ length: 3 }, (_, i) => `00000000-0000-7000-8000-00000000000${i}`);
const text = fc.string({ unit: fc.constantFrom('a', 'B', 'b', '%', '_', '\\', "'"), maxLength: 3 });
const number = fc.constantFrom(-1, 0, 0.5, 1, 2, 3);
const whole = fc.constantFrom(-1, 0, 1, 2);
const instant = fc.constantFrom(
  '2026-01-01T00:00:00.000Z',
  '2026-01-02T00:00:00.000Z',
  '0999-05-05T05:05:05.005Z',
);
const id = fc.constantFrom(...ids);
const free = fc.oneof(
  text,
  number,
  fc.boolean(),
  fc.array(fc.oneof(number, text), { maxLength: 2 }),
  fc.record({ a: fc.oneof(number, text) }),
);
const nullable = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });

const row = fc.record({
  s: nullable(text),
  n: nullable(number),
  i: nullable(whole),
  big: nullable(whole),
  exact: nullable(number),
  b: nullable(fc.boolean()),
  d: nullable(instant),
  o: nullable(id),
  tags: nullable(fc.array(text, { maxLength: 2 })),
  nums: nullable(fc.array(number, { maxLength: 2 })),
  seo: nullable(
    fc.record({
      slug: nullable(text),
      rank: nullable(number),
      at: nullable(instant),
      on: nullable(fc.boolean()),
    }),
  ),
  lines: nullable(
    fc.array(fc.record({ price: nullable(number), name: nullable(text) }), { maxLength: 2 }),
  ),
  meta: nullable(free),
});

/** Path, a value to compare with, and whether it has an order and is text. */
const paths: readonly (readonly [string, fc.Arbitrary<unknown>, string])[] = [
  ['s', text, 'text'],
  ['n', number, 'order'],
  ['i', number, 'order'],
  ['big', number, 'order'],
  ['exact', number, 'order'],
  ['b', fc.boolean(), 'plain'],
  ['d', instant, 'order'],
  ['o', id, 'order'],
  ['tags', text, 'text'],
  ['nums', number, 'order'],
  ['seo.slug', text, 'text'],
  ['seo.rank', number, 'order'],
  ['seo.at', instant, 'order'],
  ['seo.on', fc.boolean(), 'plain'],
  ['lines.price', number, 'order'],
  ['lines.name', text, 'text'],
  ['meta', fc.oneof(text, number), 'text'],
  ['meta.a', fc.oneof(text, number), 'text'],
  ['author.name', text, 'text'],
  ['author.age', number, 'order'],
  ['friends.name', text, 'text'],
  ['author', id, 'plain'],
  ['friends', id, 'plain'],
  ['author._id', id, 'plain'],
];

const comparisons = ['greater', 'greaterOrEqual', 'less', 'lessOrEqual'] as const;
const pieces = fc.array(
  fc.string({ unit: fc.constantFrom('a', 'B', 'b', '_', '\\'), maxLength: 2 }),
  { minLength: 1, maxLength: 3 },
);

const leaf: fc.Arbitrary<Condition> = fc.constantFrom(...paths).chain(([path, value, kind]) => {
  const tests: fc.Arbitrary<Test>[] = [
    nullable(value).map((one) => ({ kind: 'equal', right: literal(one) })),
    fc
      .array(nullable(value), { maxLength: 3 })
      .map((values) => ({ kind: 'in', right: literal(values) })),
    fc.constant({ kind: 'exists' }),
  ];
  if (kind !== 'plain')
    tests.push(fc.record({ kind: fc.constantFrom(...comparisons), right: value.map(literal) }));
  if (kind === 'text')
    tests.push(
      fc.record({
        kind: fc.constant('like' as const),
        right: pieces.map((parts) => literal(parts.join('%'))),
        wildcards: fc.constant(true),
        ignoreCase: fc.boolean(),
      }),
    );
  if (path === 'tags' || path === 'nums') {
    tests.push(
      fc.array(value, { maxLength: 2 }).map((list) => ({ kind: 'equal', right: literal(list) })),
    );
  }
  if (path === 's')
    tests.push(
      fc
        .constantFrom('seo.slug', 's')
        .map((other) => ({ kind: 'lessOrEqual', right: fieldOf(other) })),
    );
  if (path === 'i')
    tests.push(
      fc
        .constantFrom('n', 'big', 'seo.rank')
        .map((other) => ({ kind: 'equal', right: fieldOf(other) })),
    );
  if (path === 'd') tests.push(fc.constant({ kind: 'greater', right: fieldOf('seo.at') }));
  return fc.oneof(...tests).map((test) => fieldTest(path, test, 'query'));
});

const condition: fc.Arbitrary<Condition> = fc.letrec<{ node: Condition }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    leaf,
    fc.record({
      kind: fc.constantFrom('all' as const, 'any' as const),
      of: fc.array(tie('node'), { maxLength: 3 }),
    }),
    fc.record({ kind: fc.constant('not' as const), of: tie('node') }),
  ),
})).node;

/** Every value that a path leads to. */
function valuesAt(
  value: unknown,
  names: readonly string[],
  authors: ReadonlyMap<string, Json>,
): unknown[] {
  const [name, ...rest] = names;
  if (name === undefined) return [value];
  if (Array.isArray(value)) return value.flatMap((item) => valuesAt(item, names, authors));
  if (typeof value !== 'object' || value === null) return [undefined];
  const next = (value as Json)[name];
  if ((name === 'author' || name === 'friends') && rest.length > 0) {
    if (rest[0] === '_id') return [next];
    const related = [next].flat().flatMap((one) => authors.get(String(one)) ?? []);
    return related.flatMap((one) => valuesAt(one, rest, authors));
  }
  // Free JSON is not searched for lists on the way; declared lists are, and a null one has no elements.
  if (rest.length > 0 && name === 'meta' && Array.isArray(next)) return [undefined];
  if (rest.length > 0 && name === 'lines')
    return Array.isArray(next) ? valuesAt(next, rest, authors) : [];
  return valuesAt(next, rest, authors);
}

const missing = (value: unknown): boolean => value === null || value === undefined;

function compare(kind: string, left: unknown, right: unknown): boolean {
  if (typeof left !== typeof right) return false;
  const [a, b] = [left as string, right as string];
  if (kind === 'equal') return a === b;
  if (kind === 'greater') return a > b;
  if (kind === 'greaterOrEqual') return a >= b;
  return kind === 'less' ? a < b : a <= b;
}

const literalValue = (right: Operand): unknown =>
  right.kind === 'literal' ? right.value : undefined;

/** Text with anything between its pieces. */
function isLike({ right, ignoreCase }: Extract<Test, { kind: 'like' }>, value: unknown): boolean {
  const source = String(literalValue(right))
    .split('%')
    .map((piece) => RegExp.escape(piece))
    .join('.*');
  return (
    typeof value === 'string' && new RegExp(`^(?:${source})$`, ignoreCase ? 'is' : 's').test(value)
  );
}

function fits(test: Test, value: unknown): boolean {
  if (test.kind === 'exists') return !missing(value);
  const other = 'right' in test ? literalValue(test.right) : undefined;
  if (test.kind === 'equal' && other === null) return missing(value);
  if (test.kind === 'equal' && Array.isArray(other))
    return JSON.stringify(value) === JSON.stringify(other);
  const list = test.kind === 'in' && Array.isArray(other) ? other : [];
  if (missing(value)) return list.includes(null);
  if (Array.isArray(value)) return value.some((item) => !missing(item) && fits(test, item));
  if (test.kind === 'in') return list.includes(value);
  if (test.kind === 'like') return isLike(test, value);
  return compare(test.kind, value, other);
}

function holds(of: Condition, record: Json, authors: ReadonlyMap<string, Json>): boolean {
  if (of.kind === 'not') return !holds(of.of, record, authors);
  if (of.kind !== 'test') {
    const fit = (part: Condition): boolean => holds(part, record, authors);
    return of.kind === 'all' ? of.of.every(fit) : of.of.some(fit);
  }
  const values = valuesAt(record, of.left.path.split('.'), authors);
  const { test } = of;
  if (!('right' in test) || test.right.kind !== 'field')
    return values.some((value) => fits(test, value));
  const [other] = valuesAt(record, test.right.path.split('.'), authors);
  return !missing(values[0]) && !missing(other) && compare(test.kind, values[0], other);
}

describe('conditions against a model', () => {
  let kernel: RecordKernel;
  beforeAll(async () => {
    kernel = await openRecordKernel();
    await kernel.schemas.create(admin, {
      name: 'Author',
      fields: { name: 'String', age: 'Number' },
    });
    await kernel.schemas.create(admin, { name: 'Row', fields });
  });
  afterAll(() => kernel.close());

  it('finds exactly the records for which the condition holds', async () => {
    const authors = await kernel.records.createMany(admin, 'Author', [
      { name: 'a', age: 1 },
      { name: 'Bb', age: null },
      { name: null },
    ]);
    const known = authors.map(({ id: _id }) => _id);
    const byId = new Map(authors.map(({ id: _id, json }) => [_id, JSON.parse(json) as Json]));
    const place = (value: unknown): unknown =>
      JSON.parse(
        ids.reduce((all, one, i) => all.replaceAll(one, known[i] ?? ''), JSON.stringify(value)),
      );
    const links = fc.record({
      author: nullable(id),
      friends: nullable(fc.array(id, { maxLength: 2 })),
    });
    const samples = fc.sample(fc.tuple(row, links), { numRuns: 60, seed: 7 });
    const inputs = samples.map(([values, related]) => place({ ...values, ...related }) as Json);
    await kernel.records.createMany(admin, 'Row', inputs);
    const rows = JSON.parse(
      await kernel.records.find(admin, 'Row', { filter: { kind: 'all', of: [] } }),
    ) as Json[];
    expect(rows).toHaveLength(60);

    await fc.assert(
      fc.asyncProperty(condition, async (generated) => {
        const filter = place(generated) as Condition;
        const expected = rows.filter((record) => holds(filter, record, byId)).map(({ _id }) => _id);
        const found = JSON.parse(await kernel.records.find(admin, 'Row', { filter })) as Json[];
        expect(found.map(({ _id }) => _id)).toEqual(expected);
        const opposite = JSON.parse(
          await kernel.records.select(admin, 'Row', {
            filter: { kind: 'not', of: filter },
            limit: 1,
          }),
        );
        expect(opposite.count).toBe(rows.length - expected.length);
      }),
      { numRuns: 400 },
    );
  });

  it('matches patterns in the database as the validator does', async () => {
    const atoms = [
      'a',
      'B',
      '.',
      '[ab]',
      '[^a]',
      '\\d',
      '\\w',
      '\\s',
      '\\S',
      '(a|b)',
      '(?:|b)',
      '\\.',
      '\\n',
      '[\\s\\S]',
      'é',
      '\\u{1f600}',
      '\\p{L}',
      '[^\\p{Ll}]',
      '\\P{L}',
    ];
    const marks = ['', '', '*', '+', '?', '{2}', '{1,2}', '*?'];
    const part = fc
      .tuple(fc.constantFrom(...atoms), fc.constantFrom(...marks))
      .map(([atom, mark]) => atom + mark);
    const piece = fc.oneof({ weight: 5, arbitrary: part }, fc.constantFrom('\\b', '\\B'));
    const pattern = fc.tuple(
      fc.constantFrom('', '^'),
      fc.array(piece, { maxLength: 4 }),
      fc.constantFrom('', '$'),
    );
    const texts = [
      '',
      'a',
      'b',
      'B',
      'ab',
      'aab',
      'a.b',
      'a1',
      ' b',
      'a\nb',
      'é',
      '\u{1f600}a',
      'ba',
      'bb\n',
    ];
    await kernel.records.createMany(
      admin,
      'Row',
      texts.map((s) => ({ s, n: 77 })),
    );
    await fc.assert(
      fc.asyncProperty(pattern, async ([start, parts, end]) => {
        const source = start + parts.join('') + end;
        const matcher = compilePattern(source);
        const test: Test = { kind: 'matches', pattern: source, ignoreCase: false };
        const filter: Condition = {
          kind: 'all',
          of: [fieldTest('s', test), equals('n', 77)],
        };
        const found = JSON.parse(await kernel.records.find(admin, 'Row', { filter })) as {
          s: string;
        }[];
        expect(found.map(({ s }) => s)).toEqual(texts.filter((one) => matcher.matches(one)));
      }),
      { numRuns: 150 },
    );
  });

  it('lets PostgreSQL compile no pattern that takes it long', async () => {
    const compiles = (source: string) =>
      kernel.database.query({
        text: 'select $1::text ~ $2::text as found',
        values: ['a', postgresPattern(source)],
      });
    for (const source of ['^.{0,200}$', '(?:a?){150}', '\\b\\w+\\b \\b\\p{L}*\\b', '(?:\\bx\\b)*'])
      expect((await compiles(source)).rows).toHaveLength(1);
    for (const source of [
      '(?:a?){255}(?:a?){240}',
      '(?:.?.?.?.?.?.?.?.?.?){0,30}zz',
      '(?:\\b|a?){120}',
      '(?:\\b|\\B|a){25}',
      '(?:\\b)*{9}',
    ]) {
      expect(() => postgresPattern(source), source).toThrow(PatternError);
    }
    // Within the bounds: no pattern takes the server over a second, and none fails in it.
    const mark = fc.constantFrom('', '?', '*', '+', '{0,9}', '{12}', '{2,}');
    const atom = fc.constantFrom('a', '.', '^', '$', '\\b', '\\B', '\\p{L}', '[^a]', '');
    const group = fc.tuple(
      fc.array(fc.tuple(atom, mark), { maxLength: 5 }),
      mark,
      fc.constantFrom('', '|'),
    );
    const nested = fc
      .array(group, { minLength: 1, maxLength: 3 })
      .map((groups) =>
        groups.reduce(
          (inner, [atoms, times, or]) =>
            `(?:${inner}${or}${atoms.map(([one, own]) => `(?:${one})${own}`).join('')})${times}`,
          '',
        ),
      );
    await fc.assert(
      fc.asyncProperty(nested, async (source) => {
        let pattern: string;
        try {
          pattern = postgresPattern(source);
        } catch (error) {
          expect(error).toBeInstanceOf(PatternError);
          return;
        }
        const values = ['aab a', pattern];
        const statement = { text: 'select $1::text ~ $2::text as found', values };
        const { rows } = await kernel.database.query<{ found: boolean }>(statement);
        expect([source, rows[0]?.found]).toEqual([source, compilePattern(source).matches('aab a')]);
      }),
      { numRuns: 300 },
    );
  });
});
