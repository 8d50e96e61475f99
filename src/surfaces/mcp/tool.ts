/** One tool: an operation as a model sees it. */
import { createHash } from 'node:crypto';
import { isReading } from '../../kernel/authority.ts';
import { type CompiledOperation, compileOperation } from '../../kernel/operations/compile.ts';
import { type JsonSchema, jsonSchema } from '../../kernel/operations/json-schema.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import type { DecodedInput } from '../../kernel/operations/operation-input.ts';
import { mcpToolName } from '../../kernel/operations/registry.ts';
import { recordForm } from '../openapi/document.ts';
import { createSchemaPublisher, type Json, type SchemaPublisher } from '../openapi/schemas.ts';
import { listed } from './listed-tool.ts';

export interface Tool {
  readonly name: string;
  readonly group: string;
  /** The module that it is about, where it is about one alone. */
  readonly module?: string;
  readonly operation: Operation;
  readonly compiled: CompiledOperation;
  /** Everything about it, in the form of `tools/list`. */
  readonly description: Json;
  /** What `tools/list` shows of that. */
  readonly listed: Json;
  /** The arguments of a call as the input of the operation. */
  inputOf(args: Readonly<Record<string, unknown>>): DecodedInput;
}

export interface ToolFacts {
  readonly operation: Operation;
  readonly group: string;
  /** The module that the tool is about, where it is about one alone. */
  readonly module?: string;
  /** Parameters of the path that the tool's name decides. */
  readonly fixed?: Readonly<Record<string, string>>;
  /** Instead of the operation's own body. */
  readonly body?: JsonSchema;
}

/** The path with the fixed parameters in place: it makes the name. */
const pathOf = ({ operation, fixed = {} }: ToolFacts): string =>
  operation.path.replace(/:(\w+)/g, (whole, name) => fixed[name] ?? whole);

export function createTool(facts: ToolFacts): Tool {
  const { operation, group } = facts;
  const path = pathOf(facts);
  const name = shortened(mcpToolName(operation.method, path));
  const places = argumentsOf(facts);
  const description = describe(facts, { name, path, places });
  return {
    name,
    group,
    ...(facts.module === undefined ? {} : { module: facts.module }),
    operation,
    compiled: compileOperation(operation),
    description,
    listed: listed(description),
    inputOf: (args) => inputOf(places, facts.fixed ?? {}, args),
  };
}

const LONGEST_NAME = 64;

/** Models take no longer names. Six characters of a digest keep two of them apart. */
export function shortened(name: string): string {
  if (name.length <= LONGEST_NAME) return name;
  return withDigest(name, name);
}

/** A name for the second of two tools whose paths give the same. */
export const withDigest = (name: string, of: string): string =>
  `${name.slice(0, LONGEST_NAME - 7)}_${createHash('sha256').update(of).digest('hex').slice(0, 6)}`;

interface Argument {
  readonly name: string;
  readonly place: 'params' | 'query' | 'body';
  /** Its key there; `undefined`: the argument is the whole body. */
  readonly key: string | undefined;
  readonly schema: JsonSchema;
  readonly required: boolean;
}

/** The fields of path, query and body side by side. Where names clash the body keeps the plain one. */
function argumentsOf({ operation, fixed = {}, body: given }: ToolFacts): readonly Argument[] {
  const { params, query, body: declared } = operation.input;
  const body = given ?? (declared && jsonSchema(declared));
  const found: Argument[] = body ? bodyArguments(body) : [];
  const taken = new Set(found.map(({ name }) => name));
  const add = (
    place: 'query' | 'params',
    prefix: string,
    schema: JsonSchema | undefined,
    all: boolean,
  ): void => {
    for (const [key, property] of Object.entries(schema?.properties ?? {})) {
      if (place === 'params' && key in fixed) continue;
      const name = taken.has(key) ? `${prefix}_${key}` : key;
      taken.add(name);
      found.push({
        name,
        place,
        key,
        schema: property,
        required: all || ((schema?.required ?? []).includes(key) && property.default === undefined),
      });
    }
  };
  add('query', 'query', query && jsonSchema(query), false);
  add('params', 'path', params && jsonSchema(params), true);
  return found;
}

function bodyArguments(body: JsonSchema): Argument[] {
  const { properties } = body;
  if (!properties)
    return [{ name: 'body', place: 'body', key: undefined, schema: body, required: true }];
  const required = new Set(body.required ?? []);
  return Object.entries(properties).map(([key, schema]) => ({
    name: key,
    place: 'body',
    key,
    schema,
    required: required.has(key),
  }));
}

function inputOf(
  places: readonly Argument[],
  fixed: Readonly<Record<string, string>>,
  args: Readonly<Record<string, unknown>>,
): DecodedInput {
  const input = {
    params: { ...fixed } as Record<string, unknown>,
    query: {} as Record<string, unknown>,
    body: undefined as unknown,
  };
  for (const { name, place, key, schema } of places) {
    // Over HTTP the decoder fills in what a query leaves out.
    const value = args[name] ?? (place === 'query' ? schema.default : undefined);
    if (value === undefined) continue;
    if (place !== 'body') input[place][key ?? name] = value;
    else if (key === undefined) input.body = value;
    else input.body = Object.assign(input.body ?? {}, { [key]: value });
  }
  return { ...input, headers: {}, stream: undefined };
}

interface Described {
  readonly name: string;
  readonly path: string;
  readonly places: readonly Argument[];
}

function describe({ operation }: ToolFacts, { name, path, places }: Described): Json {
  const { method, summary, description } = operation;
  const reads = isReading(operation);
  return {
    name,
    title: summary,
    description: `${summary}. ${description === undefined ? '' : `${description} `}(${method} ${path})`,
    inputSchema: inputSchema(places),
    outputSchema: outputSchema(operation),
    annotations: {
      title: summary,
      readOnlyHint: reads,
      destructiveHint: !reads && (operation.destructive ?? method !== 'POST'),
      idempotentHint: reads || method === 'PUT' || method === 'DELETE',
      openWorldHint: operation.openWorld ?? false,
    },
  };
}

/** JSON Schema 2020-12, whole: what OpenAPI keeps under components stands under `$defs`. */
function inputSchema(places: readonly Argument[]): Json {
  const publisher = createSchemaPublisher();
  const properties = Object.fromEntries(
    places.map(({ name, schema }) => [
      name,
      described(schema, publisher.publish(schema as Parameters<typeof publisher.publish>[0])),
    ]),
  );
  const required = places.filter((argument) => argument.required).map(({ name }) => name);
  return whole(publisher, {
    type: 'object',
    properties,
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: false,
  });
}

/** What has a name is described where it is used too. */
function described(schema: JsonSchema, published: Json): Json {
  const description = published.description ?? descriptionOf(schema);
  return description === undefined ? published : { ...published, description };
}

/** Of alternatives the first that says something speaks. */
const descriptionOf = ({ description, anyOf, oneOf }: JsonSchema): string | undefined =>
  description ?? (anyOf ?? oneOf ?? []).map(descriptionOf).find((one) => one !== undefined);

/** What a result holds. `data` is there when it is a success, `error` when it is none. */
function outputSchema(operation: Operation): Json {
  const publisher = createSchemaPublisher();
  const body = publisher.publish(operation.output, recordForm(operation));
  const { textAnswer } = operation;
  return whole(
    publisher,
    outcomeSchema(
      textAnswer === undefined
        ? body
        : { anyOf: [body, { type: 'string', description: textAnswer }] },
    ),
  );
}

/** Around the body of the answer that the route gives over HTTP. */
export const outcomeSchema = (data: Json): Json => ({
  type: 'object',
  properties: {
    success: { type: 'boolean', description: 'false: `error` says why' },
    message: { type: 'string', description: 'What was done' },
    data,
    error: { type: 'object', description: 'name, status, message, code, requestId, errors' },
  },
  required: ['success'],
});

/** With everything that it refers to. Examples are for people who read documents. */
function whole(publisher: SchemaPublisher, schema: Json): Json {
  const components = Object.entries(publisher.components()).map(
    ([name, { example: _example, ...component }]) => [name, component],
  );
  const complete =
    components.length > 0 ? { ...schema, $defs: Object.fromEntries(components) } : schema;
  return JSON.parse(
    JSON.stringify(complete).replaceAll('"#/components/schemas/', '"#/$defs/'),
  ) as Json;
}
