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
import { concluded, type MaybePromise } from '../../kernel/maybe-promise.ts';
import type { DecodedInput } from '../../kernel/operations/operation-input.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { DocumentStatistics } from './document-rules.ts';
import {
  type AreDirect,
  checkedInput,
  directVariables,
  type MakeInput,
  plainInput,
} from './field-input.ts';
import type { OperationField } from './fields.ts';
import type { BuiltSchema } from './schema.ts';
import { readSelection, type Selection } from './selection.ts';

interface PlainField {
  /** In the answer. */
  readonly name: string;
  readonly node: FieldNode;
  readonly field: OperationField;
  readonly definition: GraphQLField<unknown, unknown>;
  /** Where the library need not read the arguments. */
  readonly input: MakeInput | undefined;
  readonly selection: Selection;
}

/** The `data` of an answer as JSON text, and what went wrong in it; without a text nothing ran. */
interface PlainResult {
  readonly data?: string;
  readonly errors?: ExecutionResult['errors'];
}

export interface FieldPlace {
  /** In the answer. */
  readonly name: string;
  readonly selection: Selection;
}

/** Calls the operation of a field (`run-field.ts`). */
export interface FieldCaller {
  /** Throws or rejects with what refuses the call. `input` is made when the caller may call. */
  answer(field: OperationField, place: FieldPlace, input: () => DecodedInput): MaybePromise<Answer>;
  /** The executor gets this for the field of that name, and does not run it again. */
  keep(name: string, outcome: Answer | GraphQLError): void;
}

export interface PlainQuery {
  /** Undefined: some answer is not as it was requested. The executor goes on with the same answers. */
  run(
    runner: FieldCaller,
    variables: Readonly<Record<string, unknown>>,
  ): MaybePromise<PlainResult | undefined>;
}

/** Of a field; an error is an answer too. */
type Outcome = Answer | GraphQLError;

interface PlainQueryParts {
  readonly built: BuiltSchema;
  readonly document: DocumentNode;
  readonly node: OperationDefinitionNode;
  readonly statistics: DocumentStatistics;
}

/** Undefined for a query that renames, includes on conditions, or selects parts that only the executor can pick. */
export function plainQuery(parts: PlainQueryParts): PlainQuery | undefined {
  const { node, statistics } = parts;
  if (node.operation !== 'query' || statistics.directives > 0 || statistics.introspects)
    return undefined;
  const definitions = variablesOf(parts);
  const fields: PlainField[] = [];
  for (const selected of node.selectionSet.selections) {
    const field =
      selected.kind === Kind.FIELD ? plainField(parts, selected, definitions) : undefined;
    if (!field || fields.some(({ name }) => name === field.name)) return undefined;
    fields.push(field);
  }
  const areDirect = directVariables(definitions);
  /** Operations that answered otherwise do so again. */
  let isRendered = true;

  const put = (runner: FieldCaller, outcomes: readonly Outcome[]) => {
    isRendered = outcomes.every((one) => one instanceof GraphQLError || one.isRequested);
    if (isRendered) return resultOf(fields, outcomes);
    for (const [i, { name }] of fields.entries()) {
      const outcome = outcomes[i];
      // What is wrong with the arguments of a field the executor finds out again.
      if (outcome && wasCalled(outcome)) runner.keep(name, outcome);
    }
    return undefined;
  };

  return {
    run(runner, given) {
      if (!isRendered) return undefined;
      const variables = variablesFor(parts, { definitions, areDirect }, given);
      if (variables.errors) return { errors: variables.errors };
      const [only] = fields;
      if (only !== undefined && fields.length === 1)
        return answered(runner, only, variables, (outcome) => put(runner, [outcome]));
      const outcomes = fields.map((field) => answered(runner, field, variables, asItIs));
      return Promise.all(outcomes).then((all) => put(runner, all));
    },
  };
}

const wasCalled = (outcome: Outcome): boolean =>
  !(outcome instanceof GraphQLError) || outcome.originalError !== undefined;

interface Variables {
  readonly values: Readonly<Record<string, unknown>>;
  /** They stand as they came. */
  readonly areDirect: boolean;
  readonly errors?: readonly GraphQLError[];
}

interface DeclaredVariables {
  readonly definitions: readonly VariableDefinitionNode[];
  readonly areDirect: AreDirect | undefined;
}

function variablesFor(
  { built }: PlainQueryParts,
  { definitions, areDirect }: DeclaredVariables,
  given: Readonly<Record<string, unknown>>,
): Variables {
  if (areDirect?.(given)) return { values: given, areDirect: true };
  const { coerced, errors } = getVariableValues(built.schema, definitions, given, {
    maxErrors: 50,
  });
  return errors ? { values: {}, areDirect: false, errors } : { values: coerced, areDirect: false };
}

function plainField(
  { built, document }: PlainQueryParts,
  node: FieldNode,
  variables: readonly VariableDefinitionNode[],
): PlainField | undefined {
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
  const { populate } = selection;
  const input = attempted(() => plainInput({ field, definition, node, variables, populate }));
  return { name, node, field, definition, input, selection };
}

/** What is wrong with the arguments is said when they are used. */
function attempted<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

/** As validation has sharpened them. */
const variablesOf = ({ document, node }: PlainQueryParts): readonly VariableDefinitionNode[] =>
  document.definitions
    .filter((one): one is OperationDefinitionNode => one.kind === Kind.OPERATION_DEFINITION)
    .find(({ name }) => name?.value === node.name?.value)?.variableDefinitions ?? [];

const asItIs = (outcome: Outcome): Outcome => outcome;

/** What `use` makes of the answer of a field. An error is an answer too: it stands beside those of the other fields. */
const answered = <R>(
  runner: FieldCaller,
  plain: PlainField,
  variables: Variables,
  use: (outcome: Outcome) => R,
): MaybePromise<R> =>
  concluded<Outcome, R>(
    () => {
      const { name, node, field, definition, input, selection } = plain;
      const { values, areDirect } = variables;
      if (input && areDirect) return runner.answer(field, { name, selection }, () => input(values));
      const given = getArgumentValues(definition, node, values);
      return runner.answer(field, { name, selection }, () =>
        checkedInput(field, given, selection.populate),
      );
    },
    use,
    (error) => use(errorOf(error, plain)),
  );

function errorOf(error: unknown, { name, node }: PlainField): GraphQLError {
  if (error instanceof GraphQLError) return error;
  return new GraphQLError(error instanceof Error ? error.message : '', {
    nodes: node,
    path: [name],
    originalError: error instanceof Error ? error : undefined,
  });
}

function resultOf(fields: readonly PlainField[], outcomes: readonly Outcome[]): PlainResult {
  const errors = outcomes.filter((one) => one instanceof GraphQLError);
  const members = outcomes.map((one, i) => {
    const text = one instanceof GraphQLError ? 'null' : one.body;
    return `"${fields[i]?.name}":${text}`;
  });
  const data = `{${members.join(',')}}`;
  return errors.length > 0 ? { data, errors } : { data };
}
