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
  type TypeNode,
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

/**
 * Types of variables that may be null by their declaration, and may not where they stand. Documents written for
 * servers that mark nothing as required declare them so; they are run with the stricter type, so that what is
 * missing is told before anything runs.
 */
export type SharpenedTypes = Map<VariableDefinitionNode, TypeNode>;

/** Like `VariablesInAllowedPosition`, but scalars of one family stand in for each other, and null is left to the values. */
const variablesInFittingPosition = (sharpened: SharpenedTypes) => (context: ValidationContext) => {
  return {
    OperationDefinition: {
      leave(operation: Parameters<ValidationContext['getRecursiveVariableUsages']>[0]): void {
        const declared = new Map(operation.variableDefinitions?.map((definition) => [definition.variable.name.value, definition]));
        for (const usage of context.getRecursiveVariableUsages(operation)) {
          const definition = declared.get(usage.node.name.value);
          if (definition) checkUsage(context, definition, usage, sharpened);
        }
      },
    },
  };
};

function checkUsage(
  context: ValidationContext,
  definition: VariableDefinitionNode,
  { node, type, defaultValue }: Usage,
  sharpened: SharpenedTypes,
): void {
  const given = typeFromAST(context.getSchema(), definition.type);
  if (!given || !type) return;
  // The place has a value of its own where the variable has none.
  const wanted = isNonNullType(type) && defaultValue !== undefined ? type.ofType : type;
  if (fits(context, given as GraphQLInputType, wanted)) {
    sharpened.set(definition, sharper(sharpened.get(definition) ?? definition.type, wanted));
    return;
  }
  const message = `Variable "$${node.name.value}" of type "${given}" used in position expecting type "${type}".`;
  context.reportError(new GraphQLError(message, { nodes: [definition, node] }));
}

function fits(context: ValidationContext, given: GraphQLInputType, wanted: GraphQLInputType): boolean {
  if (isTypeSubTypeOf(context.getSchema(), given as never, wanted as never)) return true;
  if (isNonNullType(wanted)) return fits(context, given, wanted.ofType);
  if (isNonNullType(given)) return fits(context, given.ofType, wanted);
  if (isListType(wanted)) return isListType(given) && fits(context, given.ofType, wanted.ofType);
  return !isListType(given) && isSameFamily(given.name, wanted.name);
}

/** The type as it was declared, without null where that may not stand. */
function sharper(node: TypeNode, wanted: GraphQLInputType): TypeNode {
  const declared = node.kind === Kind.NON_NULL_TYPE ? node.type : node;
  const asked = isNonNullType(wanted) ? wanted.ofType : wanted;
  const inner =
    isListType(asked) && declared.kind === Kind.LIST_TYPE ? { ...declared, type: sharper(declared.type, asked.ofType) } : declared;
  return node.kind === Kind.NON_NULL_TYPE || isNonNullType(wanted) ? { kind: Kind.NON_NULL_TYPE, type: inner } : inner;
}

/** `sharpened` is filled while a document is validated. */
export function validationRules(introspection: boolean, sharpened: SharpenedTypes): readonly ValidationRule[] {
  const usual = specifiedRules.map((rule) => (rule === VariablesInAllowedPositionRule ? variablesInFittingPosition(sharpened) : rule));
  return introspection ? usual : [...usual, NoSchemaIntrospectionCustomRule];
}
