/** Parameters and bodies of operations, as OpenAPI writes them. */
import type { TSchema } from 'typebox';
import { type JsonSchema, jsonSchema } from '../../kernel/operations/json-schema.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import type { BodyType } from '../../kernel/operations/operation-input.ts';
import { exampleOf } from './examples.ts';
import { compare, freeName, type Json, type SchemaPublisher } from './schemas.ts';

type Place = 'path' | 'query' | 'header';

interface Described {
  readonly name: string;
  readonly place: Place;
  readonly required: boolean;
}

/** Describes parameters; what many operations take in the same way stands once, under `components.parameters`. */
export interface ParameterPublisher {
  /** Path parameters, under the names of the template that stands for this path. */
  ofPath(
    route: { readonly operation: Operation; readonly path: string },
    template: string,
  ): readonly Json[];
  /** Parameters of the query string, or headers. */
  of(schema: Operation['input']['query'], place: 'query' | 'header'): readonly Json[];
  /** What several operations take, for `components.parameters`. To be asked once, when all operations are described. */
  finish(): Readonly<Record<string, Json>>;
}

export function createParameterPublisher(schemas: SchemaPublisher): ParameterPublisher {
  /** By its text: the parameter, and the places where it stands, which are filled in at the end. */
  const found = new Map<
    string,
    { readonly value: Json; readonly places: Record<string, unknown>[] }
  >();

  /** Operations of schemas share the schemas of their parameters. */
  const known = new WeakMap<JsonSchema, Map<string, Record<string, unknown>[]>>();

  const placesOf = (about: Described, property: JsonSchema): Record<string, unknown>[] => {
    const key = `${about.place} ${about.name} ${about.required}`;
    const ofProperty = known.get(property) ?? new Map<string, Record<string, unknown>[]>();
    known.set(property, ofProperty);
    let places = ofProperty.get(key);
    if (!places) {
      const value = parameter(about, property, schemas);
      const text = JSON.stringify(value);
      const same = found.get(text) ?? { value, places: [] };
      found.set(text, same);
      places = same.places;
      ofProperty.set(key, places);
    }
    return places;
  };

  const placed = (about: Described, property: JsonSchema): Json => {
    const place = {};
    placesOf(about, property).push(place);
    return place;
  };

  return {
    ofPath({ operation, path }, template) {
      const properties = propertiesOf(operation.input.params);
      const own = namesIn(path);
      return namesIn(template).map((name, i) =>
        placed({ name, place: 'path', required: true }, properties[own[i] ?? ''] ?? {}),
      );
    },
    of(schema, place) {
      const required = new Set(schema ? jsonSchema(schema).required : []);
      return Object.entries(propertiesOf(schema))
        .filter(([name]) => place === 'query' || !describedElsewhere.has(name))
        .map(([name, property]) =>
          placed(
            // What has a default may be left out, although the handler always finds it.
            { name, place, required: required.has(name) && property.default === undefined },
            property,
          ),
        );
    },
    finish() {
      const components = new Map<string, Json>();
      for (const { value, places } of found.values()) {
        let stands = value;
        if (places.length > 1) {
          const name = freeName(`${value.name}`.replace(/[^A-Za-z0-9._-]/g, '_'), components);
          components.set(name, value);
          stands = { $ref: `#/components/parameters/${name}` };
        }
        for (const place of places) Object.assign(place, stands);
      }
      return Object.fromEntries([...components].sort(([a], [b]) => compare(a, b)));
    },
  };
}

const namesIn = (path: string): readonly string[] =>
  [...path.matchAll(/:(\w+)/g)].map(([, name]) => name ?? '');

/** Headers that OpenAPI describes by other means. */
const describedElsewhere: ReadonlySet<string> = new Set([
  'accept',
  'content-type',
  'authorization',
  'idempotency-key',
]);

const propertiesOf = (schema: Operation['input']['params']): Readonly<Record<string, JsonSchema>> =>
  (schema && jsonSchema(schema).properties) ?? {};

function parameter(
  { name, place, required }: Described,
  property: JsonSchema,
  schemas: SchemaPublisher,
): Json {
  const { description, ...schema } = schemas.publish(
    property as Parameters<SchemaPublisher['publish']>[0],
  );
  const example = exampleOf(property);
  return {
    name,
    in: place,
    required,
    ...(typeof description === 'string' ? { description } : {}),
    schema,
    // Optional parameters stay out of a first try.
    ...(required && example !== undefined ? { example } : {}),
  };
}

/** The `requestBody` of an operation, with an example of the least that it takes. */
export function requestBody(operation: Operation, schemas: SchemaPublisher): Json {
  const {
    input: { body, stream },
    bodyTypes = ['json'],
    bodyLimit,
  } = operation;
  const parsedBody = (described: TSchema): Json =>
    withExample(schemas.publish(described), described, operation);
  if (stream) {
    const { schema: fields, limit = bodyLimit, mayBeEmpty = false } = stream;
    const schema = fields
      ? schemas.publish(fields)
      : {
          type: 'string',
          contentEncoding: 'binary',
          description: `${stream.description} At most ${limit} bytes.`,
        };
    const streamed = Object.fromEntries(stream.contentTypes.map((type) => [type, { schema }]));
    const parsed = body ? { 'application/json': parsedBody(body) } : {};
    return { requestBody: { required: !mayBeEmpty, content: { ...streamed, ...parsed } } };
  }
  if (!body) return {};
  const { required = [], type } = jsonSchema(body);
  const media = parsedBody(body);
  const content = Object.fromEntries(bodyTypes.map((written) => [mediaTypes[written], media]));
  const isRequired = required.length > 0 || type !== 'object';
  return { requestBody: { ...(isRequired && { required: true }), content } };
}

/** A published schema with an example of what it describes. Named schemas of records bring their own. */
export function withExample(schema: Json, declared: TSchema, { tag }: Operation): Json {
  const example = tag === undefined ? exampleOf(jsonSchema(declared)) : undefined;
  return { schema, ...(example !== undefined && { example }) };
}

const mediaTypes: Readonly<Record<BodyType, string>> = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
};
