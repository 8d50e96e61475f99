/**
 * How much an operation asks for, read from its document and the schema before anything runs. A fragment is
 * measured once, however often it is spread, so that measuring costs no more than reading.
 */
import {
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isListType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { type OperationField, UNKNOWN_LIST } from './fields.ts';

export interface Measure {
  /** Levels of fields; what asks for the schema itself has limits of its own and counts as one. */
  readonly depth: number;
  readonly aliases: number;
  readonly costs: readonly RootCost[];
}

/** What a root field may answer, in objects: `fixed`, and `perItem` for each item of its page. */
export interface RootCost {
  readonly fixed: number;
  readonly perItem: number;
  /** The length of the page: as written, or the variable that says it. */
  readonly page: number | { readonly variable: string; readonly fallback: number };
}

export interface MeasureContext {
  readonly schema: GraphQLSchema;
  readonly fields: ReadonlyMap<string, OperationField>;
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
}

/** A list inside an item is taken to be this long. */
const INNER_LIST = 10;
/** Asking for the schema costs as much as this many objects. */
const INTROSPECTION_COST = 500;
/** Sums stop here, far above any limit. */
const ENOUGH = 1e9;

interface Part {
  readonly depth: number;
  readonly aliases: number;
  readonly fixed: number;
  /** Objects per item of the page, when the page is part of this. */
  readonly perItem: number;
}

/** Where a selection stands: right inside a root field, where the page is, or further down. */
type Level = 'answer' | 'below';

const nothing: Part = { depth: 0, aliases: 0, fixed: 0, perItem: 0 };

const add = (a: Part, b: Part): Part => ({
  depth: Math.max(a.depth, b.depth),
  aliases: Math.min(a.aliases + b.aliases, ENOUGH),
  fixed: Math.min(a.fixed + b.fixed, ENOUGH),
  perItem: Math.min(a.perItem + b.perItem, ENOUGH),
});

/** Fragments that spread themselves: such a document has no size. */
class EndlessError extends Error {}

/** Answers `undefined` when fragments spread themselves. */
export function measureOperation(
  operation: OperationDefinitionNode,
  context: MeasureContext,
): Measure | undefined {
  const parts = createParts(context);
  const root = context.schema.getRootType(operation.operation) ?? undefined;
  try {
    const roots = rootFields(operation.selectionSet, context.fragments, new Set()).map((node) =>
      rootPart(node, root, context, parts),
    );
    const whole = roots.reduce((sum, { part }) => add(sum, part), nothing);
    const costs = roots.map(({ part, page }) => ({
      fixed: part.fixed,
      perItem: part.perItem,
      page: withDefault(page, operation),
    }));
    return { depth: whole.depth, aliases: whole.aliases, costs };
  } catch (error) {
    if (error instanceof EndlessError) return undefined;
    throw error;
  }
}

/** As execution collects them: each fragment once. */
function rootFields(
  set: SelectionSetNode,
  fragments: MeasureContext['fragments'],
  seen: Set<string>,
): readonly FieldNode[] {
  return set.selections.flatMap((node) => {
    if (node.kind === Kind.FIELD) return [node];
    if (node.kind === Kind.INLINE_FRAGMENT) return rootFields(node.selectionSet, fragments, seen);
    const fragment = fragments.get(node.name.value);
    if (!fragment || seen.has(node.name.value)) return [];
    seen.add(node.name.value);
    return rootFields(fragment.selectionSet, fragments, seen);
  });
}

type Parts = (set: SelectionSetNode, type: unknown, level: Level) => Part;

function createParts({ schema, fragments }: MeasureContext): Parts {
  const known = new Map<string, Part | 'open'>();

  const ofFragment = (name: string, level: Level): Part => {
    const fragment = fragments.get(name);
    if (!fragment) return nothing;
    const key = `${level} ${name}`;
    const measured = known.get(key);
    if (measured === 'open') throw new EndlessError();
    if (measured) return measured;
    known.set(key, 'open');
    const part = ofSet(
      fragment.selectionSet,
      schema.getType(fragment.typeCondition.name.value),
      level,
    );
    known.set(key, part);
    return part;
  };

  const ofSet: Parts = (set, type, level) => {
    let sum = nothing;
    for (const node of set.selections) {
      if (node.kind === Kind.FIELD) sum = add(sum, ofField(node, typeOfField(node, type), level));
      else if (node.kind === Kind.FRAGMENT_SPREAD)
        sum = add(sum, ofFragment(node.name.value, level));
      else sum = add(sum, ofSet(node.selectionSet, type, level));
    }
    return sum;
  };

  const ofField = (node: FieldNode, type: GraphQLOutputType | undefined, level: Level): Part => {
    const inside = node.selectionSet
      ? ofSet(node.selectionSet, getNamedType(type), 'below')
      : undefined;
    const part = {
      ...nothing,
      depth: 1 + (inside?.depth ?? 0),
      aliases: aliasOf(node) + (inside?.aliases ?? 0),
    };
    if (!inside) return part;
    const objects = 1 + inside.fixed;
    if (!isListType(getNullableType(type))) return { ...part, fixed: objects };
    return level === 'answer'
      ? { ...part, perItem: objects }
      : { ...part, fixed: INNER_LIST * objects };
  };
  return ofSet;
}

function rootPart(
  node: FieldNode,
  root: GraphQLObjectType | undefined,
  { fields }: MeasureContext,
  parts: Parts,
) {
  if (node.name.value.startsWith('__')) return introspectionPart(node, root, parts);
  const type = typeOfField(node, root);
  const isList = isListType(getNullableType(type));
  const inside = node.selectionSet
    ? parts(node.selectionSet, getNamedType(type), isList ? 'below' : 'answer')
    : nothing;
  const part: Part = {
    depth: 1 + inside.depth,
    aliases: aliasOf(node) + inside.aliases,
    fixed: isList ? 1 : 1 + inside.fixed,
    perItem: isList ? 1 + inside.fixed : inside.perItem,
  };
  return { part, page: pageOf(node, fields.get(node.name.value)) };
}

function introspectionPart(node: FieldNode, root: GraphQLObjectType | undefined, parts: Parts) {
  const { aliases } = node.selectionSet
    ? parts(node.selectionSet, typeOfField(node, root), 'below')
    : nothing;
  const fixed = node.name.value === '__typename' ? 0 : INTROSPECTION_COST;
  return { part: { depth: 1, aliases: aliasOf(node) + aliases, fixed, perItem: 0 }, page: 0 };
}

const aliasOf = (node: FieldNode): number => (node.alias ? 1 : 0);

const typeOfField = (node: FieldNode, parent: unknown): GraphQLOutputType | undefined =>
  isObjectType(parent) ? parent.getFields()[node.name.value]?.type : undefined;

function pageOf(node: FieldNode, field: OperationField | undefined): RootCost['page'] {
  const page = field?.page;
  if (!page) return UNKNOWN_LIST;
  const value = node.arguments?.find(({ name }) => name.value === page.argument)?.value;
  if (value?.kind === Kind.VARIABLE) return { variable: value.name.value, fallback: page.fallback };
  if (value?.kind === Kind.INT || value?.kind === Kind.FLOAT || value?.kind === Kind.STRING)
    return lengthOf(value.value, page.fallback);
  return page.fallback;
}

/** A variable that is not given has the default that its definition says. */
function withDefault(
  page: RootCost['page'],
  { variableDefinitions }: OperationDefinitionNode,
): RootCost['page'] {
  if (typeof page === 'number') return page;
  const value = variableDefinitions?.find(
    ({ variable }) => variable.name.value === page.variable,
  )?.defaultValue;
  return value && 'value' in value
    ? { ...page, fallback: lengthOf(value.value, page.fallback) }
    : page;
}

function lengthOf(value: unknown, fallback: number): number {
  const length =
    typeof value === 'number' || typeof value === 'string' ? Number(value) : Number.NaN;
  return Number.isFinite(length) ? Math.max(0, length) : fallback;
}

/** The cost of all root fields, with the variables of a request. */
export function totalCost(
  { costs }: Measure,
  variables: Readonly<Record<string, unknown>>,
): number {
  let total = 0;
  for (const { fixed, perItem, page } of costs) {
    const length =
      typeof page === 'number' ? page : lengthOf(ownValue(variables, page.variable), page.fallback);
    total += fixed + perItem * length;
  }
  return total;
}

const ownValue = (variables: Readonly<Record<string, unknown>>, name: string): unknown =>
  Object.hasOwn(variables, name) ? variables[name] : undefined;
