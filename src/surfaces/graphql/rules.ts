/** Validation rules beside or instead of those of the specification. */
import {
  GraphQLError,
  type GraphQLInputType,
  isListType,
  isNonNullType,
  isTypeSubTypeOf,
  Kind,
  NoSchemaIntrospectionCustomRule,
  specifiedRules,
  typeFromAST,
  type ValidationContext,
  type ValidationRule,
  type VariableDefinitionNode,
  VariablesInAllowedPositionRule,
} from 'graphql';

/**
 * Scalars whose values are the same JSON. Clients written for other servers declare `$limit: Int` and `$id: ID`
 * where this schema says Number and String; the operation checks the value in any case.
 */
const families: readonly ReadonlySet<string>[] = [new Set(['String', 'ID', 'Date']), new Set(['Number', 'Int', 'Float'])];

const isSameFamily = (a: string, b: string): boolean => families.some((family) => family.has(a) && family.has(b));

type Usage = ReturnType<ValidationContext['getRecursiveVariableUsages']>[number];

/** Like `VariablesInAllowedPosition`, but scalars of one family stand in for each other. */
function variablesInFittingPosition(context: ValidationContext) {
  return {
    OperationDefinition: {
      leave(operation: Parameters<ValidationContext['getRecursiveVariableUsages']>[0]): void {
        const declared = new Map(operation.variableDefinitions?.map((definition) => [definition.variable.name.value, definition]));
        for (const usage of context.getRecursiveVariableUsages(operation)) {
          const definition = declared.get(usage.node.name.value);
          if (definition) checkUsage(context, definition, usage);
        }
      },
    },
  };
}

function checkUsage(context: ValidationContext, definition: VariableDefinitionNode, { node, type, defaultValue }: Usage): void {
  const given = typeFromAST(context.getSchema(), definition.type);
  if (!given || !type) return;
  const hasDefault = defaultValue !== undefined || (definition.defaultValue !== undefined && definition.defaultValue.kind !== Kind.NULL);
  const wanted = isNonNullType(type) && !isNonNullType(given) && hasDefault ? type.ofType : type;
  if (fits(context, given as GraphQLInputType, wanted as GraphQLInputType)) return;
  const message = `Variable "$${node.name.value}" of type "${given}" used in position expecting type "${type}".`;
  context.reportError(new GraphQLError(message, { nodes: [definition, node] }));
}

function fits(context: ValidationContext, given: GraphQLInputType, wanted: GraphQLInputType): boolean {
  if (isTypeSubTypeOf(context.getSchema(), given as never, wanted as never)) return true;
  if (isNonNullType(wanted)) return isNonNullType(given) && fits(context, given.ofType, wanted.ofType);
  if (isNonNullType(given)) return fits(context, given.ofType, wanted);
  if (isListType(wanted)) return isListType(given) && fits(context, given.ofType, wanted.ofType);
  return !isListType(given) && isSameFamily(given.name, wanted.name);
}

const usual: readonly ValidationRule[] = specifiedRules.map((rule) =>
  rule === VariablesInAllowedPositionRule ? variablesInFittingPosition : rule,
);
const closed: readonly ValidationRule[] = [...usual, NoSchemaIntrospectionCustomRule];

export const validationRules = (introspection: boolean): readonly ValidationRule[] => (introspection ? usual : closed);
