/**
 * Queries whose answers are what PostgreSQL rendered: each field of the root calls its operation, and the texts are put
 * together unread (docs/decisions/198-plain-graphql-queries.md). Whatever an operation does not render so goes to the executor.
 */
import {
  type DocumentNode,
  type ExecutionResult,
  type FieldNode,
  type FragmentDefinitionNode,
  GraphQLError,
  type GraphQLField,
  getArgumentValues,
  getVariableValues,
  Kind,
  type OperationDefinitionNode,
  type VariableDefinitionNode,
} from 'graphql';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { DocumentStatistics } from './document-rules.ts';
import type { OperationField } from './fields.ts';
import type { BuiltSchema } from './schema.ts';
import { readSelection, type Selection } from './selection.ts';

interface PlainField {
  /** In the answer. */
  readonly name: string;
  readonly node: FieldNode;
  readonly field: OperationField;
  readonly definition: GraphQLField<unknown, unknown>;
  /** Where no variable decides them. */
  readonly constant: Readonly<Record<string, unknown>> | undefined;
  readonly selection: Selection;
}

/** The `data` of an answer as JSON text, and what went wrong in it; without a text nothing ran. */
interface PlainResult {
  readonly data?: string;
  readonly errors?: ExecutionResult['errors'];
}

/** Calls the operation of a field (`run-field.ts`). */
interface FieldCaller {
  answer(
    field: OperationField,
    given: Readonly<Record<string, unknown>>,
    place: { readonly name: string; readonly selection: Selection },
  ): Promise<Answer>;
}

export interface PlainQuery {
  /** Undefined: some answer is not as it was requested. The executor goes on with the same answers. */
  run(
    runner: FieldCaller,
    variables: Readonly<Record<string, unknown>>,
  ): Promise<PlainResult | undefined>;
}

interface PlainQueryParts {
  readonly built: BuiltSchema;
  readonly document: DocumentNode;
  readonly node: OperationDefinitionNode;
  readonly statistics: DocumentStatistics;
}

/** Undefined for a query that renames, includes on conditions, or selects parts that only the executor can pick. */
export function plainQuery(parts: PlainQueryParts): PlainQuery | undefined {
  const { built, node, statistics } = parts;
  if (node.operation !== 'query' || statistics.directives > 0 || statistics.introspects)
    return undefined;
  const fields: PlainField[] = [];
  for (const selected of node.selectionSet.selections) {
    const field = selected.kind === Kind.FIELD ? plainField(parts, selected) : undefined;
    if (!field || fields.some(({ name }) => name === field.name)) return undefined;
    fields.push(field);
  }
  const definitions = variablesOf(parts);
  /** Operations that answered otherwise do so again. */
  let isRendered = true;

  return {
    async run(runner, given) {
      if (!isRendered) return undefined;
      const { coerced, errors } =
        definitions.length > 0
          ? getVariableValues(built.schema, definitions, given, { maxErrors: 50 })
          : noVariables;
      if (errors) return { errors };
      const answers = await Promise.all(fields.map((field) => answered(runner, field, coerced)));
      isRendered = answers.every((one) => one instanceof GraphQLError || one.isRequested);
      return isRendered ? put(fields, answers) : undefined;
    },
  };
}

const noVariables = { coerced: {}, errors: undefined };

function plainField({ built, document }: PlainQueryParts, node: FieldNode): PlainField | undefined {
  const field = built.fields.get(node.name.value);
  const definition = built.schema.getQueryType()?.getFields()[node.name.value];
  if (!field || !definition) return undefined;
  const fragments = Object.fromEntries(
    document.definitions
      .filter((one): one is FragmentDefinitionNode => one.kind === Kind.FRAGMENT_DEFINITION)
      .map((fragment) => [fragment.name.value, fragment]),
  );
  const source = { fieldNodes: [node], returnType: definition.type, fragments, variableValues: {} };
  const selection = readSelection(source, built.types);
  const name = node.alias?.value ?? node.name.value;
  if (!selection.isPlain) return undefined;
  const constant = areConstant(node) ? getArgumentValues(definition, node) : undefined;
  return { name, node, field, definition, constant, selection };
}

/** Values that no call can change for the next one. */
const areConstant = ({ arguments: given = [] }: FieldNode): boolean =>
  given.every(
    ({ value: { kind } }) => kind !== Kind.VARIABLE && kind !== Kind.LIST && kind !== Kind.OBJECT,
  );

/** As validation has sharpened them. */
const variablesOf = ({ document, node }: PlainQueryParts): readonly VariableDefinitionNode[] =>
  document.definitions
    .filter((one): one is OperationDefinitionNode => one.kind === Kind.OPERATION_DEFINITION)
    .find(({ name }) => name?.value === node.name?.value)?.variableDefinitions ?? [];

/** An error is an answer too: it stands beside those of the other fields. */
async function answered(
  runner: FieldCaller,
  { name, node, field, definition, constant, selection }: PlainField,
  variables: Readonly<Record<string, unknown>>,
): Promise<Answer | GraphQLError> {
  try {
    const given = constant ?? getArgumentValues(definition, node, variables);
    return await runner.answer(field, given, { name, selection });
  } catch (error) {
    if (error instanceof GraphQLError) return error;
    return new GraphQLError(error instanceof Error ? error.message : '', {
      nodes: node,
      path: [name],
      originalError: error instanceof Error ? error : undefined,
    });
  }
}

function put(
  fields: readonly PlainField[],
  answers: readonly (Answer | GraphQLError)[],
): PlainResult {
  const errors = answers.filter((one) => one instanceof GraphQLError);
  const members = answers.map((one, i) => {
    const text = one instanceof GraphQLError ? 'null' : one.body;
    return `"${fields[i]?.name}":${text}`;
  });
  const data = `{${members.join(',')}}`;
  return errors.length > 0 ? { data, errors } : { data };
}
