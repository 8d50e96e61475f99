// Random definitions and records against a model that is simple enough to be right.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { system } from '../../kernel/caller.ts';
import type { FieldInput, FieldMap } from '../schema/language/definition.ts';

const admin = system('test');

/** Text that JSON and PostgreSQL can hold, with everything odd that they can. */
const text = fc.string({
  unit: fc.constantFrom(
    'a',
    '"',
    '\\',
    "'",
    '\n',
    '\u0001',
    '\u2028',
    'é',
    '\u{1f600}',
    '{',
    '$',
    '%',
  ),
  maxLength: 8,
});
const number = fc.oneof(
  fc.integer(),
  fc
    .double({ noNaN: true, noDefaultInfinity: true })
    .filter((n) => !Object.is(n, -0) && (n === 0 || Math.abs(n) > 1e-300)),
);
const instant = fc.date({
  min: new Date('0001-01-01T00:00:00Z'),
  max: new Date('9999-12-31T23:59:59.999Z'),
  noInvalidDate: true,
});

interface Kind {
  readonly field: FieldInput;
  /** Pairs of what is sent and what is answered. */
  readonly value: fc.Arbitrary<{ readonly sent: unknown; readonly seen: unknown }>;
}

const same = <T>(arbitrary: fc.Arbitrary<T>) =>
  arbitrary.map((value) => ({ sent: value, seen: value }));
const listOf = ({ field, value }: Kind): Kind => ({
  field: [field],
  value: fc
    .array(value, { maxLength: 3 })
    .map((items) => ({ sent: items.map(({ sent }) => sent), seen: items.map(({ seen }) => seen) })),
});

const scalars: readonly Kind[] = [
  { field: 'String', value: same(text) },
  { field: 'Number', value: same(number) },
  { field: { type: 'Number', validate: { integer: true } }, value: same(fc.maxSafeInteger()) },
  { field: 'Boolean', value: same(fc.boolean()) },
  {
    field: 'Date',
    value: instant.map((date) => ({ sent: date.toISOString(), seen: date.toISOString() })),
  },
  { field: 'ObjectId', value: fc.uuid().map((id) => ({ sent: id.toUpperCase(), seen: id })) },
  {
    field: 'JSON',
    value: same(
      fc.oneof(
        text,
        fc.boolean(),
        fc.integer(),
        fc.array(fc.integer()),
        fc.dictionary(fc.constantFrom('result', 'a b', '$set', 'redirect'), text),
      ),
    ),
  },
];
const kinds: readonly Kind[] = [
  ...scalars,
  ...scalars.map(listOf),
  {
    field: { inner: 'String' },
    value: text.map((inner) => ({ sent: { inner, other: 1 }, seen: { inner } })),
  },
  listOf({
    field: { n: { type: 'Number', default: 7 } },
    value: fc.constant({ sent: {}, seen: { n: 7 } }),
  }),
];

describe('the record engine against a model', () => {
  let kernel: RecordKernel;
  let count = 0;
  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  const definition = fc.array(fc.constantFrom(...kinds), { minLength: 1, maxLength: 6 });
  const sample = fc.gen();

  it('gives back what was put in, whatever the fields', async () => {
    await fc.assert(
      fc.asyncProperty(definition, sample, async (chosen, gen) => {
        const name = `Model${count++}`;
        const fields: FieldMap = Object.fromEntries(chosen.map(({ field }, i) => [`f${i}`, field]));
        await kernel.schemas.create(admin, { name, fields });
        const draw = () => {
          const given = chosen.map(
            ({ value }, i) => [`f${i}`, gen(fc.option, value, { nil: undefined })] as const,
          );
          const present = given.filter(([, value]) => value !== undefined);
          return {
            sent: Object.fromEntries(present.map(([key, value]) => [key, value?.sent])),
            seen: Object.fromEntries(
              given.map(([key, value]) => [key, value === undefined ? null : value.seen]),
            ),
            changed: Object.fromEntries(present.map(([key, value]) => [key, value?.seen])),
          };
        };
        const rows = [draw(), draw(), draw()];
        const written = await kernel.records.createMany(
          admin,
          name,
          rows.map(({ sent }) => sent),
        );
        const first = written[0]?.id ?? '';
        const [change, whole] = [draw(), draw()];
        await kernel.records.update(admin, name, first, change.sent);
        const second = written[1]?.id ?? '';
        const replaced = JSON.parse(
          (await kernel.records.replace(admin, name, second, whole.sent)).json,
        );
        const { documents } = JSON.parse(await kernel.records.list(admin, name));
        expect(documents).toEqual([
          expect.objectContaining({ _id: first, __v: 1, ...rows[0]?.seen, ...change.changed }),
          expect.objectContaining({ _id: second, __v: 1, ...whole.seen }),
          expect.objectContaining({ _id: written[2]?.id, __v: 0, ...rows[2]?.seen }),
        ]);
        expect(replaced).toEqual(documents[1]);
        expect(await kernel.events(name)).toHaveLength(5);
      }),
      { numRuns: 25 },
    );
  });
});
