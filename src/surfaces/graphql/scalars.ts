/** The scalars of the schema. Values are checked by the operation they go to, with better sentences than a scalar has. */
import {
  GraphQLBoolean,
  GraphQLError,
  GraphQLFloat,
  GraphQLID,
  GraphQLInt,
  GraphQLScalarType,
  GraphQLString,
  Kind,
  type ValueNode,
  valueFromASTUntyped,
} from 'graphql';
import type { JsonSchema } from '../../kernel/operations/json-schema.ts';
import { readShape, type ScalarName, takesText } from './shape.ts';

/* Whole numbers that a document writes out and JavaScript cannot hold: only their place knows whether each digit counts. */

class WholeNumber {
  readonly digits: string;

  constructor(digits: string) {
    this.digits = digits;
  }

  /** In free JSON, where a variable brings it. */
  toJSON(): number {
    return Number(this.digits);
  }
}

/** The value with such numbers as text where the place takes text, and elsewhere as the nearest number, as a JSON body has them. */
export function resolved(value: unknown, schema: JsonSchema): unknown {
  if (value instanceof WholeNumber) return takesText(schema) ? value.digits : Number(value.digits);
  if (typeof value !== 'object' || value === null) return value;
  const { shape } = readShape(schema);
  if (Array.isArray(value))
    return shape.kind === 'list' ? value.map((item) => resolved(item, shape.items)) : value;
  if (shape.kind !== 'object') return value;
  const result = Object.create(null) as Record<string, unknown>;
  for (const [key, part] of Object.entries(value))
    result[key] = resolved(part, shape.object.properties.get(key) ?? {});
  return result;
}

const invalid = (type: string, requested: string): GraphQLError =>
  new GraphQLError(`${type} must be ${requested}`);

const asIs = (value: unknown): unknown => value;

/** Digits that a JSON number would lose some of: columns of 64 bits and of any precision take them as text. */
const digits = /^-?\d{1,100}(?:\.\d{1,100})?$/;

function readNumber(value: unknown): unknown {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  if (typeof value === 'string' && digits.test(value)) return value;
  throw invalid('Number', 'a number');
}

function numberLiteral(node: ValueNode): unknown {
  if (node.kind === Kind.INT) return wholeNumber(node.value);
  if (node.kind === Kind.FLOAT) return readNumber(Number(node.value));
  if (node.kind === Kind.STRING) return readNumber(node.value);
  throw invalid('Number', 'a number');
}

function wholeNumber(digits: string): WholeNumber | number {
  const value = readNumber(Number(digits)) as number;
  return Number.isSafeInteger(value) ? value : new WholeNumber(digits);
}

/** Takes what `Number`, `BigInt` and `Decimal` take: they differ in what they promise. */
const digitScalar = (name: string, description: string): GraphQLScalarType =>
  new GraphQLScalarType({
    name,
    specifiedByURL: 'https://www.rfc-editor.org/rfc/rfc8259#section-6',
    description,
    serialize: asIs,
    parseValue: readNumber,
    parseLiteral: numberLiteral,
  });

/** The type of variables in documents for servers that have no other type of number. */
export const NumberScalar = digitScalar(
  'Number',
  'A number, whole or not, for variables. Fields are Int, Float, BigInt or Decimal.',
);

/** The library's scalar, which passes on what the database rendered. */
const passing = (scalar: GraphQLScalarType): GraphQLScalarType =>
  new GraphQLScalarType({ ...scalar.toConfig(), serialize: asIs });

const IntScalar = passing(GraphQLInt);
const FloatScalar = passing(GraphQLFloat);

function readDate(value: unknown): unknown {
  if (typeof value === 'string') return value;
  throw invalid('Date', 'text such as "2026-01-31T12:00:00Z"');
}

export const DateScalar = new GraphQLScalarType({
  name: 'Date',
  specifiedByURL: 'https://www.rfc-editor.org/rfc/rfc3339',
  description: 'An instant in ISO 8601, such as 2026-01-31T12:00:00.000Z.',
  serialize: asIs,
  parseValue: readDate,
  parseLiteral: (node) => readDate(node.kind === Kind.STRING ? node.value : undefined),
});

export const JsonScalar = new GraphQLScalarType({
  name: 'JSONObject',
  specifiedByURL: 'https://www.rfc-editor.org/rfc/rfc8259',
  description: 'Any JSON value: an object, a list, text, a number, true, false or null.',
  serialize: asIs,
  parseValue: asIs,
  parseLiteral: (node, variables) => valueFromASTUntyped(node, variables),
});

export const scalars: Readonly<Record<ScalarName, GraphQLScalarType>> = {
  String: GraphQLString,
  Boolean: GraphQLBoolean,
  ID: GraphQLID,
  Int: IntScalar,
  Float: FloatScalar,
  BigInt: digitScalar(
    'BigInt',
    'A whole number of 64 bits: a number up to 2^53, and beyond that text of its digits. Either is taken.',
  ),
  Decimal: digitScalar(
    'Decimal',
    'A number of any precision: a number, and text of its digits where a JSON number would lose some. Either is taken.',
  ),
  Date: DateScalar,
  JSONObject: JsonScalar,
};
