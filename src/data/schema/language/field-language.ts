/**
 * The schema language, declared once (spec/database.md 5.1): which options each kind of field has,
 * of which type, and what they mean. The parser checks against it, and OpenAPI, MCP, the state
 * document and the types of this folder come from it. What a shape cannot say (a unique field must
 * be required, a default must fit) is checked on top, in parse-options.ts.
 */
import Type, { type Static, type TSchema } from 'typebox';

export const typeNames = [
  'String',
  'Number',
  'Boolean',
  'Date',
  'ObjectId',
  'JSON',
  'Relation',
  'File',
  'Vector',
] as const;
export type FieldTypeName = (typeof typeNames)[number];
export const isTypeName = (value: unknown): value is FieldTypeName =>
  typeNames.some((name) => name === value);

const text = (description: string, maxLength = 1_000) => Type.String({ maxLength, description });
const flag = (description: string) => Type.Boolean({ description });
const count = (description: string) => Type.Integer({ minimum: 0, description });
const number = (description: string) => Type.Number({ description });

/** Every rule under `validate`. */
const rules = {
  format: Type.Enum(['email', 'url', 'uuid', 'objectId'], { description: 'What the text must be' }),
  minLength: count('Least characters'),
  maxLength: count('Most characters'),
  length: count('Exact number of characters'),
  pattern: text('Regular expression in the syntax of RE2, without look-around and back references'),
  min: number('Least value'),
  max: number('Greatest value'),
  exclusiveMin: number('The value must be greater'),
  exclusiveMax: number('The value must be less'),
  integer: flag('Whole numbers only'),
  minItems: count('Least elements'),
  maxItems: count('Most elements'),
  message: text('Replaces the sentence of any broken rule'),
};
type RuleName = keyof typeof rules;

const accessRule = text(
  'public, user, owner, admin, role:<name>, relation:<name> or action:<name>',
  80,
);

/** Every option of a field, besides `type` and `validate`. */
const options = {
  required: flag('A record must have a value'),
  unique: flag('No two records have the same value; needs `required`'),
  default: Type.Unknown({ description: 'Stands in for a missing value' }),
  select: flag('False hides the field from every read'),
  enum: Type.Array(Type.Unknown(), {
    minItems: 1,
    maxItems: 1_000,
    description: 'The values that it may have',
  }),
  primaryKey: flag('The same as required and unique'),
  description: text('Shown in the API description'),
  index: Type.Union(
    [
      Type.Boolean(),
      Type.Object({
        type: Type.Optional(
          Type.Union([
            Type.String(),
            Type.Number(),
            Type.Array(Type.Union([Type.String(), Type.Number()])),
          ]),
        ),
        options: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      }),
    ],
    { description: 'True, or the type and options of an index over this field' },
  ),
  sqlType: text(
    'Column type of a Number: INT, BIGINT, FLOAT, DOUBLE, DECIMAL. Taken for existing clients and without effect: VARCHAR, TEXT, CHAR of a String, TIME, DATETIME, TIMESTAMP of a Date',
    64,
  ),
  model: Type.String({
    minLength: 1,
    maxLength: 63,
    description: 'The schema that a relation points to',
  }),
  onDelete: Type.Enum(['restrict', 'cascade', 'setNull'], {
    description: 'What happens here when the target is deleted; restrict unless set',
  }),
  dimensions: Type.Integer({ minimum: 1, maximum: 16_000, description: 'Numbers in the vector' }),
  similarity: Type.Enum(['cosine', 'euclidean', 'dotProduct'], {
    description: 'How vectors are compared; cosine unless set',
  }),
  access: Type.Object(
    { read: Type.Optional(accessRule), write: Type.Optional(accessRule) },
    {
      additionalProperties: false,
      description: 'Who may see it and who may set it; top-level fields only',
    },
  ),
};
type OptionName = keyof typeof options;

interface Kind {
  readonly options: readonly OptionName[];
  readonly rules?: readonly RuleName[];
  /** Options that must be there. */
  readonly needs?: readonly OptionName[];
}

const everyKind: readonly OptionName[] = ['required', 'select', 'default', 'description', 'access'];

/** What each kind has beside the options that all have. `array` and `object` are written without a type name. */
const kinds = {
  String: {
    options: ['unique', 'primaryKey', 'enum', 'index', 'sqlType'],
    rules: ['format', 'minLength', 'maxLength', 'length', 'pattern', 'message'],
  },
  Number: {
    options: ['unique', 'primaryKey', 'enum', 'index', 'sqlType'],
    rules: ['min', 'max', 'exclusiveMin', 'exclusiveMax', 'integer', 'message'],
  },
  Boolean: { options: ['unique', 'enum', 'index'] },
  Date: { options: ['unique', 'primaryKey', 'enum', 'index', 'sqlType'] },
  ObjectId: { options: ['unique', 'primaryKey', 'enum', 'index'] },
  JSON: { options: ['index'] },
  Relation: { options: ['unique', 'model', 'onDelete', 'index'], needs: ['model'] },
  // Like every relation, it has an index.
  File: { options: ['unique', 'onDelete'] },
  Vector: { options: ['dimensions', 'similarity'], needs: ['dimensions'] },
  array: { options: ['model', 'index'], rules: ['minItems', 'maxItems', 'message'] },
  object: { options: ['index'] },
} satisfies Record<FieldTypeName | 'array' | 'object', Kind>;

export type KindName = keyof typeof kinds;

const optionalParts = <S extends Record<string, TSchema>>(
  shapes: S,
  names: readonly (keyof S & string)[],
): Record<string, TSchema> =>
  Object.fromEntries(names.map((name) => [name, Type.Optional(shapes[name] as TSchema)]));

/** The shape of a field of that kind, written as `{type, ...}`. `type`: what its type is in this place. */
function shapeOfKind(name: KindName, type: TSchema) {
  const { options: own, rules: ruleNames, needs = [] }: Kind = kinds[name];
  const validate = Type.Object(optionalParts(rules, ruleNames ?? []), {
    additionalProperties: false,
    description: 'Rules that a value must keep',
  });
  return Type.Object(
    {
      type,
      ...optionalParts(options, [...everyKind, ...own]),
      ...Object.fromEntries(needs.map((need) => [need, options[need]])),
      // Kinds without rules take an empty map.
      validate: Type.Optional(validate),
    },
    { additionalProperties: false },
  );
}

/** What the parser checks: the type was read before, and is anything here. */
export const shapeOf = (name: KindName) => shapeOfKind(name, Type.Unknown());

const optional = <S extends Record<string, TSchema>>(shapes: S) =>
  Type.Partial(Type.Object(shapes));
const anyOptions = optional(options);
const anyRules = optional(rules);
/** Rules and options of a field, whatever its kind; kinds decide which of them it really has. */
export type FieldRules = ReadonlyDeep<Static<typeof anyRules>>;
export type FieldOptionValues = ReadonlyDeep<Static<typeof anyOptions>>;

type ReadonlyDeep<T> = T extends readonly (infer E)[]
  ? readonly ReadonlyDeep<E>[]
  : T extends object
    ? { readonly [K in keyof T]: ReadonlyDeep<T[K]> }
    : T;

/** A field in any of its forms, as it is published. It refers to itself, so no validator is compiled from it. */
const publishedField: Record<string, unknown> = {
  $id: 'Field',
  description:
    'A field: the name of a type, an object with a type and options, a list of one field, or a map of fields',
};
const publishedMap = {
  $id: 'FieldMap',
  type: 'object',
  description:
    'Fields by name: letters, digits and _, at most 63, at most 400 in all and 8 levels deep',
  additionalProperties: publishedField,
};
const listOfOne = { type: 'array', items: publishedField, minItems: 1, maxItems: 1 };
publishedField.anyOf = [
  { enum: typeNames },
  ...typeNames.map((name) => ({ ...shapeOfKind(name, Type.Literal(name)), $id: `${name}Field` })),
  {
    ...shapeOfKind('array', Type.Unsafe(listOfOne)),
    $id: 'ListField',
    description: 'A list with options',
  },
  {
    ...shapeOfKind('object', Type.Unsafe(publishedMap)),
    $id: 'NestedField',
    description: 'Nested fields with options',
  },
  listOfOne,
  publishedMap,
];

/** `fields` of a schema in an operation. The parser reads it, so that every problem is named with its place. */
export const fieldMapShape = Type.Record(Type.String(), Type.Unknown(), {
  description: 'Fields in the schema language',
  published: () => publishedMap,
});
