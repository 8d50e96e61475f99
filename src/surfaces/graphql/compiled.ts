/** One operation of a document, ready to run: interpreted at first, compiled when it comes again and again. */
import { type DocumentNode, type ExecutionResult, execute, type OperationDefinitionNode } from 'graphql';
import { type CompiledQuery, compileQuery, isCompiledQuery } from 'graphql-jit';
import type { Census } from './census.ts';
import type { Measure } from './measure.ts';
import type { BuiltSchema } from './schema.ts';
import type { Selection } from './selection.ts';

/** Compiling takes a millisecond or more: whoever sends ever new documents must not make us spend it. */
const USES_BEFORE_COMPILING = 4;

export interface PreparedOperation {
  readonly kind: OperationDefinitionNode['operation'];
  readonly measure: Measure;
  /** Selections by the name of the root field in the answer; undefined where they depend on variables. */
  readonly selections: Map<string, Selection> | undefined;
  run(context: unknown, variables: Readonly<Record<string, unknown>>): Promise<ExecutionResult> | ExecutionResult;
}

export interface OperationParts {
  readonly built: BuiltSchema;
  readonly document: DocumentNode;
  readonly node: OperationDefinitionNode;
  readonly measure: Measure;
  readonly census: Census;
}

export function prepareOperation({ built, document, node, measure, census }: OperationParts): PreparedOperation {
  const { schema } = built;
  const operationName = node.name?.value;
  let uses = 0;
  let compiled: CompiledQuery | undefined;

  const compile = (): CompiledQuery | undefined => {
    const result = compileQuery(schema, document, operationName, { disablingCapturingStackErrors: true });
    return isCompiledQuery(result) ? result : undefined;
  };

  return {
    kind: node.operation,
    measure,
    selections: census.directives === 0 ? new Map() : undefined,
    run(context, variables) {
      uses++;
      if (uses === USES_BEFORE_COMPILING && isCompilable(node, census)) compiled = compile();
      if (compiled) return compiled.query(undefined, context, variables) as Promise<ExecutionResult> | ExecutionResult;
      return execute({
        schema,
        document,
        contextValue: context,
        variableValues: variables,
        ...(operationName === undefined ? {} : { operationName }),
      });
    },
  };
}

/**
 * Plain queries only. The compiler reads JSON literals without their variables and has its own ways with
 * directives; mutations spend their time in the database.
 */
const isCompilable = (node: OperationDefinitionNode, census: Census): boolean =>
  node.operation === 'query' && census.directives === 0 && !census.variableInLiteral && !census.oddAlias;
