/** Documents, read and checked once per text: parsed, measured, validated and, when they come often, compiled. */
import {
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  execute,
  type FragmentDefinitionNode,
  GraphQLError,
  Kind,
  type OperationDefinitionNode,
  parse,
  type TypeNode,
  type VariableDefinitionNode,
  validate,
} from 'graphql';
import { type CompiledQuery, compileQuery, isCompiledQuery } from 'graphql-jit';
import { LRUCache } from 'lru-cache';
import {
  countNodes,
  type DocumentStatistics,
  nestsDeeper,
  type SharpenedTypes,
  validationRules,
} from './document-rules.ts';
import { type Measure, measureOperation, totalCost } from './operation-cost.ts';
import type { GraphqlOptions } from './options.ts';
import { type PlainQuery, plainQuery } from './plain-query.ts';
import { RefusedDocument, tooMuch } from './responses.ts';
import type { BuiltSchema } from './schema.ts';
import type { Selection } from './selection.ts';

/* One operation of a document, ready to run: interpreted at first, compiled when it comes again and again. */

/** Compiling takes a millisecond or more: whoever sends ever new documents must not make us spend it. */
const USES_BEFORE_COMPILING = 4;

export interface PreparedOperation {
  readonly kind: OperationDefinitionNode['operation'];
  readonly measure: Measure;
  /** It takes no more than the read of one record does: one field, of an operation that is not heavy, and few objects. */
  readonly isShort: boolean;
  /** Selections by the name of the root field in the answer; undefined where they depend on variables. */
  readonly selections: Map<string, Selection> | undefined;
  /** The fields of a query whose answers may go out as they are. */
  readonly plain: PlainQuery | undefined;
  /** What the library runs. */
  args(context: unknown, variables: Readonly<Record<string, unknown>>): ExecutionArgs;
  run(
    context: unknown,
    variables: Readonly<Record<string, unknown>>,
  ): Promise<ExecutionResult> | ExecutionResult;
}

interface OperationParts {
  readonly built: BuiltSchema;
  readonly document: DocumentNode;
  readonly node: OperationDefinitionNode;
  readonly measure: Measure;
  readonly statistics: DocumentStatistics;
}

function prepareOperation({
  built,
  document,
  node,
  measure,
  statistics,
}: OperationParts): PreparedOperation {
  const { schema } = built;
  const operationName = node.name?.value;
  let uses = 0;
  let compiled: CompiledQuery | undefined;

  const compile = (): CompiledQuery | undefined => {
    const result = compileQuery(schema, document, operationName, {
      disablingCapturingStackErrors: true,
    });
    return isCompiledQuery(result) ? result : undefined;
  };

  const args: PreparedOperation['args'] = (contextValue, variableValues) => ({
    schema,
    document,
    contextValue,
    variableValues,
    ...(operationName === undefined ? {} : { operationName }),
  });

  return {
    kind: node.operation,
    args,
    measure,
    isShort: isShort(node, measure, built),
    selections: statistics.directives === 0 ? new Map() : undefined,
    plain: plainQuery({ built, document, node, statistics }),
    run(context, variables) {
      uses++;
      if (uses === USES_BEFORE_COMPILING && isCompilable(node, statistics)) compiled = compile();
      if (compiled)
        return compiled.query(undefined, context, variables) as
          | Promise<ExecutionResult>
          | ExecutionResult;
      return execute(args(context, variables));
    },
  };
}

/** Objects that a short operation may answer. */
const MAX_SHORT = 20;

function isShort(
  { selectionSet: { selections } }: OperationDefinitionNode,
  measure: Measure,
  { fields }: BuiltSchema,
): boolean {
  const [only] = selections;
  if (only?.kind !== Kind.FIELD || selections.length > 1) return false;
  const field = fields.get(only.name.value);
  return (
    field !== undefined && !field.compiled.operation.heavy && totalCost(measure, {}) <= MAX_SHORT
  );
}

/**
 * Plain queries only. The compiler reads JSON literals without their variables, has its own ways with directives, and
 * lists all types of a schema at once; mutations spend their time in the database.
 */
const isCompilable = (node: OperationDefinitionNode, statistics: DocumentStatistics): boolean =>
  node.operation === 'query' &&
  statistics.directives === 0 &&
  !statistics.variableInLiteral &&
  !statistics.oddAlias &&
  !statistics.introspects;

/** Limits of any document, far above what people write. */
const MAX_TEXT = 100_000;
const MAX_TOKENS = 5_000;
const MAX_BRACKETS = 64;
const MAX_FIELDS = 500;
const MAX_DIRECTIVES = 50;
/** Documents that are kept, and characters of all of them: a parsed one takes about a hundred times its text. */
const MAX_KEPT = 400;
const MAX_KEPT_TEXT = 250_000;

interface PreparedDocument {
  readonly operations: ReadonlyMap<string, PreparedOperation>;
  /** Where it has no other. */
  readonly only: PreparedOperation | undefined;
}

export interface Documents {
  /** Throws `RefusedDocument`. */
  prepare(text: string): PreparedDocument;
  /** Nothing for a document that would have to be read first. */
  prepared(text: string): PreparedDocument | undefined;
}

/** For one schema and one set of options: a change of either starts anew. */
export function createDocuments(built: BuiltSchema, options: GraphqlOptions): Documents {
  const kept = new LRUCache<string, PreparedDocument>({
    max: MAX_KEPT,
    maxSize: MAX_KEPT_TEXT,
    sizeCalculation: (_, text) => text.length + 1,
  });
  /** Mostly the same one comes again: to be compared it need not be read as a key. */
  let last: { readonly text: string; readonly document: PreparedDocument } | undefined;
  return {
    prepared: (text) => kept.get(text),
    prepare(text) {
      if (text === last?.text) return last.document;
      let document = kept.get(text);
      if (!document) {
        document = prepareDocument(text, built, options);
        kept.set(text, document);
      }
      last = { text, document };
      return document;
    },
  };
}

function prepareDocument(
  text: string,
  built: BuiltSchema,
  options: GraphqlOptions,
): PreparedDocument {
  const ast = parseText(text);
  const statistics = countNodes(ast);
  if (statistics.fields > MAX_FIELDS)
    throw tooMuch(
      `The document has ${statistics.fields} fields: at most ${MAX_FIELDS} are allowed`,
    );
  if (statistics.directives > MAX_DIRECTIVES)
    throw tooMuch(`The document has more than ${MAX_DIRECTIVES} directives`);
  const fragments = new Map(
    definitionsOf(ast, Kind.FRAGMENT_DEFINITION).map((fragment) => [fragment.name.value, fragment]),
  );
  const measured = definitionsOf(ast, Kind.OPERATION_DEFINITION).map((node) => {
    const measure = measureOperation(node, {
      schema: built.schema,
      fields: built.fields,
      fragments,
    });
    if (measure) requireWithin(measure, options);
    return { node, measure };
  });
  for (const { node } of measured) requireRoot(node, built);
  const sharpened: SharpenedTypes = new Map();
  const errors = validate(built.schema, ast, validationRules(options.introspection, sharpened), {
    maxErrors: 20,
  });
  if (errors.length > 0) throw new RefusedDocument('GRAPHQL_VALIDATION_FAILED', errors);
  const document = withTypes(ast, sharpened);
  const operations = new Map<string, PreparedOperation>();
  for (const { node, measure } of measured) {
    // Validation has refused fragments without end.
    if (measure)
      operations.set(
        node.name?.value ?? '',
        prepareOperation({ built, document, node, measure, statistics }),
      );
  }
  const [first] = operations.values();
  return { operations, only: operations.size === 1 ? first : undefined };
}

const withTypes = (ast: DocumentNode, types: SharpenedTypes): DocumentNode => ({
  ...ast,
  definitions: ast.definitions.map((definition) =>
    definition.kind === Kind.OPERATION_DEFINITION && definition.variableDefinitions
      ? {
          ...definition,
          variableDefinitions: definition.variableDefinitions.map((one) =>
            withType(one, types.get(one)),
          ),
        }
      : definition,
  ),
});

function withType(
  definition: VariableDefinitionNode,
  type: TypeNode | undefined,
): VariableDefinitionNode {
  if (!type) return definition;
  const { defaultValue, ...others } = definition;
  const isNothing = type.kind === Kind.NON_NULL_TYPE && defaultValue?.kind === Kind.NULL;
  return { ...others, type, ...(defaultValue && !isNothing && { defaultValue }) };
}

function parseText(text: string): DocumentNode {
  if (text.length > MAX_TEXT) throw tooMuch(`The document is longer than ${MAX_TEXT} characters`);
  if (nestsDeeper(text, MAX_BRACKETS))
    throw tooMuch(`Brackets nest deeper than ${MAX_BRACKETS} levels`);
  try {
    return parse(text, { maxTokens: MAX_TOKENS });
  } catch (error) {
    if (error instanceof GraphQLError) throw new RefusedDocument('GRAPHQL_PARSE_FAILED', [error]);
    throw error;
  }
}

/** Validation asks no questions about the fields of a kind of operation that the schema does not have. */
function requireRoot(node: OperationDefinitionNode, { schema }: BuiltSchema): void {
  if (schema.getRootType(node.operation)) return;
  const error = new GraphQLError(`There are no fields for a ${node.operation}`, { nodes: node });
  throw new RefusedDocument('GRAPHQL_VALIDATION_FAILED', [error]);
}

type Definition = OperationDefinitionNode | FragmentDefinitionNode;

const definitionsOf = <K extends Definition['kind']>(
  ast: DocumentNode,
  kind: K,
): readonly Extract<Definition, { kind: K }>[] =>
  ast.definitions.filter(
    (definition): definition is Extract<Definition, { kind: K }> => definition.kind === kind,
  );

function requireWithin({ depth, aliases, costs }: Measure, options: GraphqlOptions): void {
  if (costs.length > options.maxRootFields)
    throw tooMuch(
      `The operation has ${costs.length} fields at its root: at most ${options.maxRootFields} are allowed, so ask for the others in another request`,
    );
  if (depth > options.maxDepth)
    throw tooMuch(`The operation is ${depth} levels deep: at most ${options.maxDepth} are allowed`);
  if (aliases > options.maxAliases)
    throw tooMuch(
      `The operation has ${aliases} aliases: at most ${options.maxAliases} are allowed`,
    );
}

/** Whether a request means an operation that is known to be short. */
export function meansShort(
  prepared: PreparedDocument | undefined,
  name: string | undefined,
): boolean {
  if (!prepared) return false;
  const { operations } = prepared;
  const chosen = name ? operations.get(name) : [...operations.values()][0];
  return (chosen?.isShort ?? false) && (Boolean(name) || operations.size === 1);
}

/** The operation that a request means. Throws `RefusedDocument` when it does not say so. */
export function chooseOperation(
  { operations, only }: PreparedDocument,
  name: string | undefined,
): PreparedOperation {
  if (name === undefined || name === '') {
    if (only) return only;
    throw unclear(
      operations.size > 0
        ? 'The document has several operations: say which one with operationName'
        : 'The document has no operation',
    );
  }
  const chosen = operations.get(name);
  if (!chosen) throw unclear('The document has no operation of that name');
  return chosen;
}

const unclear = (message: string): RefusedDocument =>
  new RefusedDocument('OPERATION_RESOLUTION_FAILURE', [new GraphQLError(message)]);
