/** From the arguments of a field to the input of its operation. */
import {
  type FieldNode,
  type GraphQLField,
  getArgumentValues,
  Kind,
  type TypeNode,
  type ValueNode,
  type VariableDefinitionNode,
} from 'graphql';
import { ownDefault } from '../../kernel/operations/json-schema.ts';
import type { DecodedInput } from '../../kernel/operations/operation-input.ts';
import { currentAccount, jsonSize } from '../../kernel/request-account/request-account.ts';
import type { ArgumentPlace, OperationField } from './fields.ts';
import { resolved } from './scalars.ts';

export type Arguments = Readonly<Record<string, unknown>>;

/** Null counts as left out, as it does in JSON bodies; `populate` adds to what the arguments ask for. */
export function operationInput(
  field: OperationField,
  given: Arguments,
  populate: readonly string[],
): DecodedInput {
  const input = { params: emptyPlace(), query: emptyPlace(), headers: emptyPlace() };
  for (const { argument, place, key, schema, fallback } of field.arguments) {
    const value = resolved(argumentValue(given, argument), schema) ?? ownDefault(fallback);
    if (value !== undefined) input[place][key] = value;
  }
  if (field.populates && populate.length > 0) {
    const asked = Array.isArray(input.query.populate) ? (input.query.populate as unknown[]) : [];
    input.query.populate = [...new Set([...asked, ...populate])];
  }
  return {
    ...input,
    body:
      field.body &&
      (resolved(argumentValue(given, field.body.argument), field.body.schema) ?? undefined),
  };
}

const emptyPlace = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

const argumentValue = (given: Arguments, name: string): unknown =>
  Object.hasOwn(given, name) ? given[name] : undefined;

/** A variable counts each time that it is used. Throws 413. */
export function chargeInput(input: DecodedInput): void {
  const account = currentAccount();
  account?.charge('bytesIn', jsonSize(input, account.left('bytesIn') + 1));
}

/** Input that its operation takes. Throws 400 and 413. */
export function checkedInput(
  field: OperationField,
  given: Arguments,
  populate: readonly string[],
): DecodedInput {
  const input = operationInput(field, given, populate);
  chargeInput(input);
  return field.compiled.accept(input);
}

/*
 * Fields of plain queries: what the document says is worked out and checked once, and variables of the types that JSON
 * has are put in their places. Whatever else comes is for the library to look at.
 */

interface DirectType {
  /** Some value of the type. */
  readonly sample: unknown;
  takes(value: unknown): boolean;
}

/** Types whose JSON is taken as it is. */
const direct = new Map<string, DirectType>([
  ['ID', { takes: isText, sample: '' }],
  ['String', { takes: isText, sample: '' }],
  ['Boolean', { takes: (value) => typeof value === 'boolean', sample: false }],
  ['Int', { takes: isInt, sample: 0 }],
  ['Float', { takes: (value) => Number.isFinite(value), sample: 0 }],
]);

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

/** The type `Int` of GraphQL has 32 bits. */
function isInt(value: unknown): boolean {
  return typeof value === 'number' && (value | 0) === value && !Object.is(value, -0);
}

const typeName = (type: TypeNode): string | undefined => {
  const inner = type.kind === Kind.NON_NULL_TYPE ? type.type : type;
  return inner.kind === Kind.NAMED_TYPE ? inner.name.value : undefined;
};

const directTypeOf = ({ type }: VariableDefinitionNode) => direct.get(typeName(type) ?? '');

/** Whether the values of all variables stand as they are: given, not null, and of their types. */
export type AreDirect = (given: Arguments) => boolean;

/** Undefined where some variable has a type that the library has to read. */
export function directVariables(
  definitions: readonly VariableDefinitionNode[],
): AreDirect | undefined {
  const tests = definitions.map((one) => ({ name: one.variable.name.value, ...directTypeOf(one) }));
  const known = tests.flatMap(({ name, takes }) => (takes ? [{ name, takes }] : []));
  if (known.length < tests.length) return undefined;
  return (given) =>
    known.every(({ name, takes }) => Object.hasOwn(given, name) && takes(given[name]));
}

/** Throws 400 and 413. */
export type MakeInput = (variables: Arguments) => DecodedInput;

interface InputSource {
  readonly field: OperationField;
  readonly definition: GraphQLField<unknown, unknown>;
  readonly node: FieldNode;
  readonly variables: readonly VariableDefinitionNode[];
  readonly populate: readonly string[];
}

/** Undefined for arguments that are more than single values. `variables` of what is made are direct. Throws 400. */
export function plainInput(source: InputSource): MakeInput | undefined {
  const { field, definition, node, variables, populate } = source;
  const bound = boundPlaces(source);
  if (!bound) return undefined;
  const samples = Object.fromEntries(
    variables.map((one) => [one.variable.name.value, directTypeOf(one)?.sample]),
  );
  const given = getArgumentValues(definition, node, samples);
  for (const { argument } of bound) delete given[argument];
  const base = operationInput(field, given, populate);
  if (!isFlat(base)) return undefined;
  const baseBytes = jsonSize(base, Number.POSITIVE_INFINITY);
  if (bound.length === 0) {
    const taken = field.compiled.accept(base);
    return () => {
      currentAccount()?.charge('bytesIn', baseBytes);
      return copyOf(taken);
    };
  }
  return (values) => {
    const input = copyOf(base);
    let bytes = baseBytes;
    for (const { place, key, variable } of bound) {
      const value = values[variable];
      input[place][key] = value;
      bytes += key.length + 4 + (typeof value === 'string' ? value.length + 2 : 8);
    }
    currentAccount()?.charge('bytesIn', bytes);
    return field.compiled.accept(input);
  };
}

interface BoundPlace extends Pick<ArgumentPlace, 'argument' | 'place' | 'key'> {
  readonly variable: string;
}

const isSingle = ({ kind }: ValueNode): boolean => kind !== Kind.LIST && kind !== Kind.OBJECT;

/** Where variables go. */
function boundPlaces({ field, node, variables }: InputSource): readonly BoundPlace[] | undefined {
  const isDirect = new Set(
    variables.filter(directTypeOf).map(({ variable }) => variable.name.value),
  );
  const bound: BoundPlace[] = [];
  for (const { name, value } of node.arguments ?? []) {
    if (!isSingle(value) || name.value === field.body?.argument) return undefined;
    if (value.kind !== Kind.VARIABLE) continue;
    const place = field.arguments.find(({ argument }) => argument === name.value);
    if (!place || !isDirect.has(value.name.value)) return undefined;
    bound.push({ ...place, variable: value.name.value });
  }
  return bound;
}

interface FlatInput extends DecodedInput {
  readonly params: Record<string, unknown>;
  readonly query: Record<string, unknown>;
  readonly headers: Record<string, unknown>;
}

const isFlat = ({ params, query, headers, body }: DecodedInput): boolean =>
  body === undefined &&
  [params, query, headers].every((place) => Object.values(place).every(isFlatValue));

const isFlatValue = (value: unknown): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (Array.isArray(value) && value.every((item) => typeof item !== 'object'));

/** Handlers may change what they get. */
const copyOf = (input: DecodedInput): FlatInput => ({
  ...input,
  params: copyPlace(input.params),
  query: copyPlace(input.query),
  headers: copyPlace(input.headers),
});

function copyPlace(place: Arguments): Record<string, unknown> {
  const copy = Object.create(null) as Record<string, unknown>;
  for (const key in place) {
    const value = place[key];
    copy[key] = Array.isArray(value) ? value.slice() : value;
  }
  return copy;
}
