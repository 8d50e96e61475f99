/** Declared parameters of a function as the input of an operation, and what its code gets as `req`. */
import type { TObject, TSchema } from 'typebox';
import Type from 'typebox';
import { parseBoundedJson } from '../../../kernel/json-value-limit.ts';
import type { InputSchemas } from '../../../kernel/operations/operation-input.ts';
import {
  describedType,
  type FunctionInputs,
  type FunctionReturns,
  type Param,
} from './definition.ts';

/** Elements of one list. */
const MAX_ITEMS = 1_000;

type Place = 'bodyParams' | 'queryParams' | 'urlParams';

/** Anything but text: a query cannot tell the text `1` from the number. */
const jsonText = Type.Unsafe<unknown>({
  type: ['object', 'array', 'number', 'boolean'],
  description: 'JSON text',
});

function typeShape(name: string, place: Place): TSchema {
  switch (name) {
    case 'Number':
      return Type.Number();
    case 'Boolean':
      return Type.Boolean();
    case 'Date':
      return Type.String({ format: 'date-time' });
    case 'JSON':
      return place === 'bodyParams' ? Type.Unknown() : jsonText;
    default:
      return Type.String();
  }
}

function paramShape(param: Param, place: Place, as: Place): TSchema {
  const isObject = typeof param === 'object' && !Array.isArray(param);
  const {
    type,
    required,
    enum: allowed,
  } = isObject ? param : { type: param, required: false, enum: undefined };
  const name = Array.isArray(type) ? (type[0] as string) : (type as string);
  const item = allowed ? Type.Enum([...allowed]) : typeShape(name, as);
  const shape = Array.isArray(type) ? Type.Array(item, { maxItems: MAX_ITEMS }) : item;
  return required === true || place === 'urlParams' ? shape : Type.Optional(shape);
}

/** `as`: the place by whose rules the values are written, where that is another one. */
export function placeShape(
  inputs: FunctionInputs,
  place: Place,
  as: Place = place,
): TObject | undefined {
  const params = Object.entries(inputs[place] ?? {});
  if (params.length === 0) return undefined;
  return Type.Object(
    Object.fromEntries(params.map(([name, param]) => [name, paramShape(param, place, as)])),
  );
}

/** The parts of the path that parameters are. */
export const pathParams = ({ urlParams = {} }: FunctionInputs): string =>
  Object.keys(urlParams)
    .map((name) => `/:${name}`)
    .join('');

export function inputSchemas(inputs: FunctionInputs): InputSchemas {
  const [params, query, body] = (['urlParams', 'queryParams', 'bodyParams'] as const).map((place) =>
    placeShape(inputs, place),
  );
  return { ...(params && { params }), ...(query && { query }), ...(body && { body }) };
}

/* What a function answers (specification section 5.4). */

const answered = (data: TSchema): TSchema => Type.Object({ result: Type.Optional(data) });

const keysShape = (keys: object): TSchema =>
  Type.Object(
    Object.fromEntries(
      Object.entries(keys).map(([key, one]) => [key, Type.Optional(returnShape(one))]),
    ),
  );

function returnShape(type: unknown): TSchema {
  if (Array.isArray(type)) return Type.Array(returnShape(type[0]));
  if (typeof type === 'object' && type !== null) {
    const inner = describedType(type);
    return inner === undefined ? keysShape(type) : returnShape(inner);
  }
  switch (type) {
    case 'String':
    case 'Date':
    case 'ObjectId':
    case 'Relation':
      return Type.String();
    case 'Number':
      return Type.Number();
    case 'Boolean':
      return Type.Boolean();
    default:
      return Type.Unknown();
  }
}

export function outputShape(returns: FunctionReturns | null): TSchema {
  if (typeof returns !== 'object' || returns === null)
    return answered(returns === 'String' ? Type.String() : Type.Unknown());
  return keysShape(returns);
}

const nullable = (value: unknown): boolean => value === null || value === undefined;

/** Exactly the declared keys. Throws where a value is of another type than declared. */
export function pickReturns(value: unknown, type: unknown, path = 'result'): unknown {
  if (nullable(value)) return value;
  if (Array.isArray(type)) {
    if (!Array.isArray(value)) throw invalidReturn(path, 'a list');
    return value.map((one, at) => pickReturns(one, type[0], `${path}.${at}`));
  }
  if (typeof type === 'object' && type !== null) {
    const inner = describedType(type);
    return inner === undefined ? pickKeys(value, type, path) : pickReturns(value, inner, path);
  }
  const expected = primitives.get(String(type));
  if (expected !== undefined && typeof value !== expected)
    throw invalidReturn(path, `a ${expected}`);
  return value;
}

function pickKeys(value: unknown, type: object, path: string): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalidReturn(path, 'an object');
  const given = new Map(Object.entries(value));
  return Object.fromEntries(
    Object.entries(type).map(([key, one]) => [
      key,
      pickReturns(given.get(key), one, `${path}.${key}`),
    ]),
  );
}

const primitives: ReadonlyMap<string, string> = new Map([
  ['String', 'string'],
  ['Number', 'number'],
  ['Boolean', 'boolean'],
]);

/** A result that is not what the function declares. */
export class ReturnError extends Error {
  readonly code = 'INVALID_RETURN';
}

const invalidReturn = (path: string, expected: string): ReturnError =>
  new ReturnError(`${path} must be ${expected}, as \`returns\` says`);

/** The body of the answer as JSON. `text`: what the function answered, as JSON; empty: nothing. */
export function returnedBody(text: string, returns: FunctionReturns | null): string {
  if (typeof returns !== 'object' || returns === null)
    return text === '' ? '{}' : `{"result":${text}}`;
  const value: unknown = text === '' ? {} : parseBoundedJson(text, 'The result');
  return JSON.stringify(pickKeys(value ?? {}, returns, 'result'));
}
