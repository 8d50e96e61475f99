/** The declared inputs of an endpoint as the input of an operation, and their values in a request. */

import type { TObject, TProperties, TSchema } from 'typebox';
import Type from 'typebox';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import type { DecodedInput, InputSchemas } from '../../../../kernel/operations/operation-input.ts';
import { maxReferenceLength } from '../../../../kernel/permissions.ts';
import { cursorQuery } from '../listing.ts';
import {
  type EndpointDefinition,
  type EndpointInput,
  endpointOperation,
  type InputType,
  inputLocation,
  methodOf,
} from './definition.ts';

/** Elements of one list. */
const MAX_ITEMS = 1_000;

/** Query parameters that the platform adds. */
const platformParameters: ReadonlySet<string> = new Set([
  'skip',
  'limit',
  'cursor',
  'sort',
  'populate',
  'scope',
]);

function itemShape(type: InputType, location: number): TSchema {
  switch (type) {
    case 'String':
      return Type.String();
    case 'Number':
      return Type.Number();
    case 'Boolean':
      return Type.Boolean();
    case 'Date':
      return Type.String({ description: 'ISO 8601 instant, or a date' });
    case 'ObjectId':
    case 'Relation':
      return Type.String({ format: 'uuid' });
    case 'Vector':
      return Type.Array(Type.Number(), { maxItems: 16_384 });
    case 'JSON':
      return location === inputLocation.body ? Type.Unknown() : jsonText;
  }
}

/** Anything but text: a query cannot tell the text `1` from the number. */
const jsonText = Type.Unsafe<unknown>({
  type: ['object', 'array', 'number', 'boolean'],
  description: 'JSON text',
});

function inputShape(input: EndpointInput, nullable: boolean): TSchema {
  const item = itemShape(input.type, input.location);
  const shape = input.array ? Type.Array(item, { maxItems: MAX_ITEMS }) : item;
  return nullable ? Type.Union([shape, Type.Null()]) : shape;
}

/** Inputs of one location. */
function shapeOf({ inputs, assignments }: EndpointDefinition, location: number): TProperties {
  const set = new Set(
    assignments
      .filter(({ action }) => action === 0)
      .map(({ assignmentField }) => assignmentField.value),
  );
  const shapes = inputs
    .filter((input) => input.location === location)
    .map((input) => {
      // A field is cleared with null; anywhere else null is as good as nothing.
      const shape = inputShape(
        input,
        location === inputLocation.body && input.optional === true && set.has(input.name),
      );
      return [input.name, input.optional ? Type.Optional(shape) : shape] as const;
    });
  return Object.fromEntries(shapes);
}

const range = {
  skip: Type.Integer({ minimum: 0, maximum: 1_000_000_000_000 }),
  limit: Type.Integer({ minimum: 1, maximum: 1_000 }),
  cursor: cursorQuery,
};
const sort = Type.Optional(
  Type.Array(Type.String({ maxLength: 64 }), {
    maxItems: 8,
    description: 'Fields; - in front: descending',
  }),
);
const populate = Type.Optional(
  Type.Array(Type.String({ maxLength: 256 }), {
    maxItems: 10,
    description: 'Relations to include as records; dots for depth, at most 3',
  }),
);
const scope = Type.Optional(
  Type.String({
    maxLength: maxReferenceLength,
    description: 'Act on behalf of this resource, as <Type>:<id>',
  }),
);

export function inputSchemas(endpoint: EndpointDefinition, schema: CompiledSchema): InputSchemas {
  const answersRecords =
    endpoint.operation === endpointOperation.get || endpoint.operation === endpointOperation.post;
  const query = {
    ...shapeOf(endpoint, inputLocation.query),
    ...(answersRecords && { populate }),
    ...(schema.modelOptions.conduit.authorization.enabled && { scope }),
    ...(endpoint.paginated && range),
    ...(endpoint.sorted && { sort }),
  };
  const [params, body] = [
    shapeOf(endpoint, inputLocation.path),
    shapeOf(endpoint, inputLocation.body),
  ];
  return { ...asObject('params', params), ...asObject('query', query), ...asObject('body', body) };
}

const asObject = <K extends string>(key: K, shapes: TProperties): Partial<Record<K, TObject>> =>
  Object.keys(shapes).length > 0
    ? ({ [key]: Type.Object(shapes) } as Partial<Record<K, TObject>>)
    : {};

/** The values that came, by name; absent ones are not there. */
export function inputValues(
  { inputs }: EndpointDefinition,
  { params, query, body }: DecodedInput,
): ReadonlyMap<string, unknown> {
  const places = [body, query, params];
  const values = new Map<string, unknown>();
  for (const { name, location } of inputs) {
    const place = places[location];
    if (typeof place !== 'object' || place === null || !Object.hasOwn(place, name)) continue;
    const value = (place as Record<string, unknown>)[name];
    if (value !== undefined) values.set(name, value);
  }
  return values;
}

/* Rules about the inputs of an endpoint. */

const nameRule = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;

export function inputProblems({ inputs, operation }: EndpointDefinition): readonly Problem[] {
  const seen = new Set<string>();
  return inputs.flatMap((input, index) => {
    const problem =
      problemOf(input, methodOf[operation] ?? 'GET') ?? (seen.has(input.name) ? twin : undefined);
    seen.add(input.name);
    return problem
      ? [{ path: `inputs.${index}.${problem.key}`, rule: problem.rule, message: problem.message }]
      : [];
  });
}

interface InputProblem {
  readonly key: string;
  readonly rule: string;
  readonly message: string;
}

const twin: InputProblem = { key: 'name', rule: 'unique', message: 'another input has this name' };

function problemOf(
  { name, type, location, array, optional }: EndpointInput,
  method: string,
): InputProblem | undefined {
  if (!nameRule.test(name) || name in Object.prototype) {
    return {
      key: 'name',
      rule: 'name',
      message: 'starts with a letter or _, then letters, digits and _, at most 63 in all',
    };
  }
  if (location === inputLocation.query && platformParameters.has(name)) {
    return {
      key: 'name',
      rule: 'name',
      message: `"${name}" is a query parameter of the platform; choose another name`,
    };
  }
  if (location === inputLocation.body && (method === 'GET' || method === 'DELETE')) {
    return {
      key: 'location',
      rule: 'location',
      message: `${method} has no body: put the input into the query (1) or the path (2)`,
    };
  }
  if (location !== inputLocation.body && type === 'Vector')
    return { key: 'type', rule: 'type', message: 'a Vector can only stand in the body' };
  if (location === inputLocation.query && type === 'JSON' && array) {
    return {
      key: 'array',
      rule: 'location',
      message: 'leave array out: one JSON value in a query can be a list',
    };
  }
  if (location !== inputLocation.path) return undefined;
  if (array)
    return { key: 'array', rule: 'location', message: 'an input in the path cannot be a list' };
  return optional
    ? { key: 'optional', rule: 'location', message: 'an input in the path cannot be optional' }
    : undefined;
}
