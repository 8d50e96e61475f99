/** Random field declarations, and with each what a simple model says about values: what is answered, or where the problem is. */
import fc from 'fast-check';
import type { FieldInput, FieldMap } from '../../src/data/schema/language/definition.ts';

/** One value as it may be sent. */
export interface Sample {
  /** Undefined: left out. */
  readonly sent: unknown;
  /** What is answered when nothing is wrong. */
  readonly seen: unknown;
  /** Where something is wrong, from the field on: empty, `.0`, `.inner`. */
  readonly problems: readonly string[];
}

export interface FieldModel {
  readonly field: FieldInput;
  readonly required: boolean;
  readonly hidden: boolean;
  /** Values that are there. */
  readonly given: fc.Arbitrary<Sample>;
  /** What a field that is left out becomes. */
  readonly absent: Sample;
  readonly kind: 'leaf' | 'list' | 'object';
}

const fits = <T>(values: fc.Arbitrary<T>): fc.Arbitrary<Sample> =>
  values.map((value) => ({ sent: value, seen: value, problems: [] }));
const wrong = (...values: readonly unknown[]): fc.Arbitrary<Sample> =>
  fc.constantFrom(...values).map((sent) => ({ sent, seen: undefined, problems: [''] }));

interface Leaf {
  readonly declared: Readonly<Record<string, unknown>>;
  readonly right: fc.Arbitrary<Sample>;
  readonly wrong: fc.Arbitrary<Sample>;
}

const letters = fc.constantFrom('a', 'B', ' ', '"', '\\', "'", '%', '{', '\n');

const leaf: fc.Arbitrary<Leaf> = fc.oneof(
  fc.tuple(fc.nat(2), fc.integer({ min: 3, max: 6 })).map(([minLength, maxLength]) => ({
    declared: { type: 'String', validate: { minLength, maxLength } },
    right: fits(fc.string({ unit: letters, minLength, maxLength })),
    wrong: wrong('x'.repeat(maxLength + 1), 5, true, {}, ['x'], 'a\u0000b'),
  })),
  fc.constant({
    declared: { type: 'String', enum: ['a', 'b'] },
    right: fits(fc.constantFrom('a', 'b')),
    wrong: wrong('c', 'A', '', 1),
  }),
  fc.boolean().map((integer) => ({
    declared: { type: 'Number', validate: { min: -10, max: 10, ...(integer && { integer }) } },
    right: fits(
      integer ? fc.integer({ min: -10, max: 10 }) : fc.constantFrom(-10, -0.5, 0, 1.25, 10),
    ),
    wrong: wrong(11, -10.5, '1', true, [1], ...(integer ? [0.5] : [])),
  })),
  fc.constant({
    declared: { type: 'Boolean' },
    right: fits(fc.boolean()),
    wrong: wrong('true', 1, {}),
  }),
  fc.constant({
    declared: { type: 'Date' },
    right: fc
      .date({ min: new Date('1900-01-01'), max: new Date('2100-01-01'), noInvalidDate: true })
      .map((date) => ({ sent: date.toISOString(), seen: date.toISOString(), problems: [] })),
    wrong: wrong('yesterday', '2026-02-30', 5, ''),
  }),
  fc.constant({
    declared: { type: 'ObjectId' },
    right: fc.uuid().map((id) => ({ sent: id.toUpperCase(), seen: id, problems: [] })),
    wrong: wrong('1', 'x'.repeat(36), 7),
  }),
  fc.constant({
    declared: { type: 'JSON' },
    right: fits(
      fc.constantFrom<unknown>('text', 0, false, [], [1, { a: null }], { $set: 1, 'a b': [] }),
    ),
    wrong: wrong('a\u0000b', { key: 'a\u0000b' }),
  }),
);

/** Mostly right, so that whole records are right often enough. */
const mixed = (right: fc.Arbitrary<Sample>, invalid: fc.Arbitrary<Sample>): fc.Arbitrary<Sample> =>
  fc.oneof({ weight: 12, arbitrary: right }, { weight: 1, arbitrary: invalid });

const nothing: Sample = { sent: undefined, seen: null, problems: [] };
const missing: Sample = { sent: undefined, seen: undefined, problems: [''] };

const options = fc.record({
  required: fc.boolean(),
  hasDefault: fc.boolean(),
  hidden: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
});

const leafModel: fc.Arbitrary<FieldModel> = fc
  .tuple(leaf, options, fc.gen())
  .map(([{ declared, right, wrong: invalid }, chosen, gen]) => {
    const { required, hasDefault, hidden } = chosen;
    const byDefault = hasDefault ? gen(() => right) : undefined;
    return {
      field: {
        ...declared,
        ...(required && { required }),
        ...(byDefault && { default: byDefault.sent }),
        ...(hidden && { select: false }),
      } as FieldInput,
      required,
      hidden,
      given: mixed(right, invalid),
      absent: byDefault ? { ...byDefault, sent: undefined } : required ? missing : nothing,
      kind: 'leaf',
    };
  });

const listModel: fc.Arbitrary<FieldModel> = fc
  .tuple(leaf, fc.boolean())
  .filter(([{ declared }]) => declared.type !== 'JSON')
  .map(([{ declared, right, wrong: invalid }, bounded]) => {
    const items = fc
      .array(mixed(right, invalid), { minLength: bounded ? 1 : 0, maxLength: bounded ? 2 : 4 })
      .map(
        (list): Sample => ({
          sent: list.map(({ sent }) => sent),
          seen: list.map(({ seen }) => seen),
          problems: list.flatMap(({ problems }, i) => problems.map((rest) => `.${i}${rest}`)),
        }),
      );
    const { type, validate, ...rest } = declared;
    // The rules of a bounded list are its own; its elements then have none.
    const plain = validate === undefined && Object.keys(rest).length === 0;
    const isBounded = bounded && plain;
    return {
      field: (isBounded
        ? { type: [type], validate: { minItems: 1, maxItems: 2 } }
        : [declared]) as FieldInput,
      required: false,
      hidden: false,
      given: mixed(items, isBounded ? wrong('x', {}, []) : wrong('x', {}, 1)),
      absent: nothing,
      kind: 'list',
    };
  });

const objectModel = (child: fc.Arbitrary<FieldModel>): fc.Arbitrary<FieldModel> =>
  fc.array(child, { minLength: 1, maxLength: 3 }).map((children) => {
    const named = children.map((model, i) => [`k${i}`, model] as const);
    const visible = named.filter(([, { hidden }]) => !hidden);
    const given = fc.tuple(...children.map(sampleOf)).map((samples): Sample => {
      const of = (name: string): Sample => samples[Number(name.slice(1))] ?? nothing;
      return {
        sent: Object.fromEntries(
          named.flatMap(([name]) => (of(name).sent === undefined ? [] : [[name, of(name).sent]])),
        ),
        seen: Object.fromEntries(visible.map(([name]) => [name, of(name).seen])),
        problems: named.flatMap(([name]) => of(name).problems.map((rest) => `.${name}${rest}`)),
      };
    });
    const defaults = named.map(([, { absent }]) => absent);
    const complete =
      defaults.every(({ problems }) => problems.length === 0) &&
      defaults.some(({ seen }) => seen !== null);
    return {
      field: Object.fromEntries(named.map(([name, { field }]) => [name, field])) as FieldInput,
      required: false,
      hidden: false,
      given: mixed(given, wrong('x', 1, ['x'])),
      absent: complete
        ? {
            ...nothing,
            seen: Object.fromEntries(visible.map(([name, { absent }]) => [name, absent.seen])),
          }
        : nothing,
      kind: 'object',
    };
  });

/** A value, null, or nothing. */
export function sampleOf({ given, absent, required }: FieldModel): fc.Arbitrary<Sample> {
  const empty: Sample = { sent: null, seen: null, problems: required ? [''] : [] };
  return fc.oneof(
    { weight: 8, arbitrary: given },
    { weight: absent.problems.length > 0 ? 0 : 3, arbitrary: fc.constant(absent) },
    { weight: 1, arbitrary: fc.constantFrom(absent, empty) },
  );
}

export const fieldModel: fc.Arbitrary<FieldModel> = fc.oneof(
  { weight: 5, arbitrary: leafModel },
  { weight: 2, arbitrary: listModel },
  {
    weight: 2,
    arbitrary: objectModel(
      fc.oneof(
        { weight: 3, arbitrary: leafModel },
        { weight: 1, arbitrary: objectModel(leafModel) },
      ),
    ),
  },
);

/** Fields called `f0`, `f1`, ... */
export const fieldMapOf = (models: readonly FieldModel[]): FieldMap =>
  Object.fromEntries(models.map(({ field }, i) => [`f${i}`, field]));
