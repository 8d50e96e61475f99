/** What a client may filter by, as documents show it: fields with their types, and the operators that the schema allows. */
import Type, { type TProperties, type TSchema } from 'typebox';
import type { Test } from '../../../data/conditions/condition.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { QuerySwitch } from '../../../data/schema/language/definition.ts';
import type { Field } from '../../../data/schema/language/field.ts';

/** The tests that an operator of the language becomes; opposites are the same test. */
const testsOf: ReadonlyMap<string, Test['kind']> = new Map<string, Test['kind']>([
  ['$eq', 'equal'],
  ['$ne', 'equal'],
  ['$gt', 'greater'],
  ['$gte', 'greaterOrEqual'],
  ['$lt', 'less'],
  ['$lte', 'lessOrEqual'],
  ['$in', 'in'],
  ['$nin', 'in'],
  ['$exists', 'exists'],
  ['$like', 'like'],
  ['$ilike', 'like'],
  ['$regex', 'matches'],
  ['$search', 'search'],
]);

const textTests: ReadonlySet<Test['kind']> = new Set(['like', 'matches', 'search']);

/** What is allowed unless the schema says otherwise: what an index can answer. */
const defaultOperators = [...testsOf].flatMap(([name, kind]) =>
  textTests.has(kind) ? [] : [name],
);

/** The operators as the schema lists them, and the tests that these become. */
export function allowedOperators({ operators = defaultOperators }: QuerySwitch): {
  readonly operators: readonly string[];
  readonly tests: ReadonlySet<Test['kind']>;
} {
  return { operators, tests: new Set(operators.flatMap((name) => testsOf.get(name) ?? [])) };
}

/**
 * The `query` of a filter. What it holds is checked by the parser of conditions, which says more about what is wrong
 * than a validator: so only documents have its shape, as `<Schema>Filter`.
 */
export function filterShape(schema: CompiledSchema, query: QuerySwitch): TSchema {
  const { fields = [] } = query;
  const { tests } = allowedOperators(query);
  const description = `Conditions on ${fields.join(', ') || 'no field'}`;
  const examples = [exampleOf(schema, fields, tests)];
  let made: TSchema | undefined;
  // Conditions hold conditions: what refers to itself is asked for when it is written down.
  const published = (): TSchema => {
    made ??= Type.Object(
      { ...conditionsOf(schema, fields, tests), ...combinationsOf(Type.Unknown({ published })) },
      { additionalProperties: false, component: `${schema.name}Filter`, description, examples },
    );
    return made;
  };
  return Type.Unknown({ description, examples, published });
}

const combinationsOf = (condition: TSchema): TProperties => ({
  $and: Type.Optional(Type.Array(condition, { minItems: 1 })),
  $or: Type.Optional(Type.Array(condition, { minItems: 1 })),
  $nor: Type.Optional(Type.Array(condition, { minItems: 1 })),
  $not: Type.Optional(condition),
});

function conditionsOf(
  schema: CompiledSchema,
  fields: readonly string[],
  tests: ReadonlySet<Test['kind']>,
): TProperties {
  return Object.fromEntries(
    fields.map((path) => [path, Type.Optional(conditionOn(valueAt(schema, path), tests))]),
  );
}

/** A value to be equal to, or operators. */
function conditionOn(value: TSchema | undefined, tests: ReadonlySet<Test['kind']>): TSchema {
  if (!value) return Type.Unknown();
  const operators = operatorsOf(Type.Union([value, Type.Null()]), tests);
  return tests.has('equal') ? Type.Union([value, Type.Null(), operators]) : operators;
}

function operatorsOf(value: TSchema, tests: ReadonlySet<Test['kind']>): TSchema {
  const properties: Record<string, TSchema> = {};
  for (const [name, kind] of testsOf)
    if (tests.has(kind)) properties[name] = Type.Optional(operandOf(kind, value));
  if (tests.has('matches')) properties.$options = Type.Optional(Type.Literal('i'));
  const operators = Type.Object(properties, { additionalProperties: false });
  const $not = Type.Optional(operators);
  return Type.Object({ ...properties, $not }, { additionalProperties: false });
}

function operandOf(kind: Test['kind'], value: TSchema): TSchema {
  if (kind === 'in') return Type.Array(value);
  if (kind === 'exists') return Type.Boolean();
  return textTests.has(kind) ? Type.String() : value;
}

/** `undefined`, which is anything, where a path leads on, or to more than a single value. */
function valueAt({ tree, key }: CompiledSchema, path: string): TSchema | undefined {
  const field = tree.fields.get(path);
  if (field) return typeOfField(field);
  if (path === 'createdAt' || path === 'updatedAt') return moment();
  if (path === '__v') return Type.Integer();
  return path === '_id' && key.length > 0 ? Type.String() : undefined;
}

const moment = (): TSchema => Type.String({ description: 'ISO 8601 instant, or a date' });

function typeOfField(field: Field): TSchema | undefined {
  switch (field.kind) {
    case 'string':
      return field.enum
        ? Type.Unsafe<string>({ type: 'string', enum: [...field.enum] })
        : Type.String();
    case 'number':
      return field.storage === 'bigint' || field.storage === 'numeric'
        ? Type.Union([Type.Number(), Type.String({ description: 'Digits' })])
        : Type.Number();
    case 'boolean':
      return Type.Boolean();
    case 'date':
      return moment();
    case 'objectId':
    case 'relation':
      return Type.String();
    default:
      return undefined;
  }
}

/** A filter that is taken, whatever the fields are. */
function exampleOf(
  { tree }: CompiledSchema,
  [path]: readonly string[],
  tests: ReadonlySet<Test['kind']>,
): Readonly<Record<string, unknown>> {
  if (path === undefined) return {};
  const field = tree.fields.get(path);
  if (field?.kind === 'string' && tests.has('equal')) return { [path]: field.enum?.[0] ?? 'text' };
  return tests.has('exists') ? { [path]: { $exists: true } } : {};
}
