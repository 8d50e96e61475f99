/**
 * Tools as lists show them. A model reads the whole list with every question, so what is long is told on demand, by
 * `describe_tool`: large parts of arguments, and what answers hold in their depth. What a list says is less than the
 * whole, and never untrue: clients check answers by it.
 */
import type { Json } from '../openapi/schemas.ts';

/** Bytes of arguments that are listed whole. */
const WHOLE_ARGUMENTS = 1_500;
/** Bytes of one argument among more than that. */
const WHOLE_ARGUMENT = 400;
/** How far into an answer the list tells: its keys, the elements of its lists, and their keys. */
const ANSWER_DEPTH = 3;
/** References that are followed inside one argument. */
const REFERENCE_DEPTH = 2;

/** The name of the tool that tells everything about another. */
export const describeTool = 'describe_tool';

export const listed = (description: Json): Json => ({
  ...description,
  inputSchema: shortArguments(description.inputSchema as Json),
  outputSchema: shortAnswer(description.outputSchema as Json),
});

const bytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

function shortArguments(schema: Json): Json {
  if (bytes(schema) <= WHOLE_ARGUMENTS) return schema;
  const { $defs, properties, ...others } = schema;
  const shape = (argument: Json): Json => {
    const whole = withoutReferences(argument, ($defs ?? {}) as Json, REFERENCE_DEPTH);
    return whole && bytes(whole) <= WHOLE_ARGUMENT ? whole : onDemand(argument, $defs as Json);
  };
  return { ...others, properties: mapped(properties as Json, shape) };
}

/** What an argument is for; what it looks like is told elsewhere. */
function onDemand(argument: Json, definitions: Json = {}): Json {
  const { type } = resolved(argument, definitions);
  const about = typeof argument.description === 'string' ? `${argument.description}. ` : '';
  return {
    ...(type === undefined ? {} : { type }),
    description: `${about}Its shape: ${describeTool}`,
  };
}

/** With what it refers to in its place; nothing where that refers to more, or to itself. */
function withoutReferences(schema: Json, definitions: Json, depth: number): Json | undefined {
  const text = JSON.stringify(schema);
  if (!text.includes('"$ref"')) return schema;
  if (depth === 0) return undefined;
  const replaced = JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null || !('$ref' in value)) return value;
    const { $ref: _ref, ...beside } = value;
    return { ...resolved(value as Json, definitions), ...beside };
  }) as Json;
  return bytes(replaced) > WHOLE_ARGUMENT
    ? undefined
    : withoutReferences(replaced, definitions, depth - 1);
}

function shortAnswer(schema: Json): Json {
  const { $defs, properties, ...others } = schema;
  const shape = (part: Json): Json => outline(part, ($defs ?? {}) as Json, ANSWER_DEPTH);
  return { ...others, properties: mapped(properties as Json, shape) };
}

/** Keys and types, down to a depth. */
function outline(schema: Json, definitions: Json, depth: number): Json {
  const { type, properties, items, anyOf, oneOf, allOf } = resolved(schema, definitions);
  const shape = (part: Json): Json => outline(part, definitions, depth - 1);
  const own = type === undefined ? {} : { type };
  if (depth === 0) return own;
  const choice = (anyOf ?? oneOf) as readonly Json[] | undefined;
  return {
    ...own,
    ...(properties ? { properties: mapped(properties as Json, shape) } : {}),
    ...(items ? { items: shape(items as Json) } : {}),
    ...(choice ? { anyOf: distinct(choice.map(shape)) } : {}),
    ...(allOf ? { allOf: (allOf as readonly Json[]).map(shape) } : {}),
  };
}

/** Follows one reference; `#/$defs/Name` is the only kind there is. */
function resolved(schema: Json, definitions: Json): Json {
  if (typeof schema.$ref !== 'string') return schema;
  return (definitions[schema.$ref.replace('#/$defs/', '')] ?? {}) as Json;
}

const mapped = (map: Json, shape: (part: Json) => Json): Json =>
  Object.fromEntries(Object.entries(map).map(([name, part]) => [name, shape(part as Json)]));

const distinct = (parts: readonly Json[]): readonly Json[] => [
  ...new Map(parts.map((part) => [JSON.stringify(part), part])).values(),
];
