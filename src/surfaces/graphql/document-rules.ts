/** Validation rules beside or instead of those of the specification. */
import {
  type DocumentNode,
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
  visit,
} from 'graphql';

/**
 * Scalars whose values are the same JSON. Clients written for other servers declare `$limit: Int` and `$id: ID`
 * where this schema says BigInt and String; the operation checks the value in any case.
 */
const families: readonly ReadonlySet<string>[] = [
  new Set(['String', 'ID', 'Date']),
  new Set(['Number', 'Int', 'Float', 'BigInt', 'Decimal']),
];

const isSameFamily = (a: string, b: string): boolean =>
  families.some((family) => family.has(a) && family.has(b));

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
        const declared = new Map(
          operation.variableDefinitions?.map((definition) => [
            definition.variable.name.value,
            definition,
          ]),
        );
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
  const requested = isNonNullType(type) && defaultValue !== undefined ? type.ofType : type;
  if (fits(context, given as GraphQLInputType, requested)) {
    sharpened.set(definition, sharper(sharpened.get(definition) ?? definition.type, requested));
    return;
  }
  const message = `Variable "$${node.name.value}" of type "${given}" used in position expecting type "${type}".`;
  context.reportError(new GraphQLError(message, { nodes: [definition, node] }));
}

function fits(
  context: ValidationContext,
  given: GraphQLInputType,
  requested: GraphQLInputType,
): boolean {
  if (isTypeSubTypeOf(context.getSchema(), given as never, requested as never)) return true;
  if (isNonNullType(requested)) return fits(context, given, requested.ofType);
  if (isNonNullType(given)) return fits(context, given.ofType, requested);
  if (isListType(requested))
    return isListType(given) && fits(context, given.ofType, requested.ofType);
  return !isListType(given) && isSameFamily(given.name, requested.name);
}

/** The type as it was declared, without null where that may not stand. */
function sharper(node: TypeNode, requested: GraphQLInputType): TypeNode {
  const declared = node.kind === Kind.NON_NULL_TYPE ? node.type : node;
  const asked = isNonNullType(requested) ? requested.ofType : requested;
  const inner =
    isListType(asked) && declared.kind === Kind.LIST_TYPE
      ? { ...declared, type: sharper(declared.type, asked.ofType) }
      : declared;
  return node.kind === Kind.NON_NULL_TYPE || isNonNullType(requested)
    ? { kind: Kind.NON_NULL_TYPE, type: inner }
    : inner;
}

/** `sharpened` is filled while a document is validated. */
export function validationRules(
  introspection: boolean,
  sharpened: SharpenedTypes,
): readonly ValidationRule[] {
  const usual = specifiedRules.map((rule) =>
    rule === VariablesInAllowedPositionRule ? variablesInFittingPosition(sharpened) : rule,
  );
  return introspection ? usual : [...usual, NoSchemaIntrospectionCustomRule];
}

/* What a document holds, whatever the schema. */

/** What decides how a document may be run. */
export interface DocumentStatistics {
  readonly fields: number;
  readonly directives: number;
  /** Some JSON literal holds a variable. */
  readonly variableInLiteral: boolean;
  /** Some field is renamed to what only the specification may name (`__proto__`). */
  readonly oddAlias: boolean;
  /** The schema itself is asked for. */
  readonly introspects: boolean;
}

/** Counts what a document holds. */
export function countNodes(ast: DocumentNode): DocumentStatistics {
  let fields = 0;
  let directives = 0;
  let literals = 0;
  let variableInLiteral = false;
  let oddAlias = false;
  let introspects = false;
  const literal = { enter: () => void literals++, leave: () => void literals-- };
  visit(ast, {
    Field(node) {
      fields++;
      oddAlias ||= node.alias?.value.startsWith('__') ?? false;
      introspects ||= node.name.value === '__schema';
    },
    Directive: () => void directives++,
    ObjectValue: literal,
    ListValue: literal,
    Variable() {
      variableInLiteral ||= literals > 0;
    },
  });
  return { fields, directives, variableInLiteral, oddAlias, introspects };
}

/* How deep the brackets of a document nest, read from its text, before a parser that recurses sees it. */

/**
 * Answers whether some bracket stands deeper than `max`. Strings and comments count as nothing; text that is no
 * GraphQL may be judged either way, and the parser refuses it anyhow.
 */
export function nestsDeeper(text: string, max: number): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case 0x22: // "
        i = endOfString(text, i);
        break;
      case 0x23: // #
        i = endOfLine(text, i);
        break;
      case 0x28: // (
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > max) return true;
        break;
      case 0x29: // )
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
        break;
    }
  }
  return false;
}

function endOfLine(text: string, start: number): number {
  for (let i = start; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x0a || code === 0x0d) return i;
  }
  return text.length;
}

/** The place of the last quote. A string ends at the line, unless it is a block. */
function endOfString(text: string, start: number): number {
  if (text.startsWith('"""', start)) {
    let end = text.indexOf('"""', start + 3);
    while (end > 0 && text[end - 1] === '\\') end = text.indexOf('"""', end + 3);
    return end < 0 ? text.length : end + 2;
  }
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x5c) i++;
    else if (code === 0x22 || code === 0x0a || code === 0x0d) return i;
  }
  return text.length;
}
