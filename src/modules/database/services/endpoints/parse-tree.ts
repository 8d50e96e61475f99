/** Reads the query tree of an endpoint. Every problem is reported with its place; nothing unknown passes. */

import {
  type Comparison,
  type FieldOperand,
  field,
  type Leaf,
  leavesOf,
  literal,
  not,
  type Operand,
  type Test,
  type Tree,
} from '../../../../data/conditions/condition.ts';
import { shortName } from '../../../../data/schema/language/names.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import {
  comparisonCode,
  type EndpointDefinition,
  LAST_COMPARISON,
  type QueryLeaf,
  type QueryTree,
  type ValueSource,
} from './definition.ts';

const MAX_DEPTH = 12;
const MAX_NODES = 64;

interface ParseState {
  readonly problems: Problem[];
  nodes: number;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A lone leaf is wrapped into `AND`, as it is stored. `{}` is everything. */
export function parseTree(query: unknown, place: string, problems: Problem[]): QueryTree | null {
  if (query === null || query === undefined || (isObject(query) && Object.keys(query).length === 0))
    return null;
  const state: ParseState = { problems, nodes: 0 };
  const tree = parseNode(state, query, { path: place, depth: 0 });
  if (state.nodes > MAX_NODES)
    problems.push({
      path: place,
      rule: 'count',
      message: `a query has at most ${MAX_NODES} parts`,
    });
  return tree && 'schemaField' in tree ? { AND: [tree] } : (tree ?? null);
}

interface Place {
  readonly path: string;
  readonly depth: number;
}

const report = (state: ParseState, path: string, rule: string, message: string): undefined => {
  state.problems.push({ path, rule, message });
};

function parseNode(
  state: ParseState,
  node: unknown,
  { path, depth }: Place,
): QueryTree | undefined {
  if (++state.nodes > MAX_NODES) return undefined;
  if (depth > MAX_DEPTH)
    return report(state, path, 'depth', `groups are nested at most ${MAX_DEPTH} levels deep`);
  if (!isObject(node))
    return report(state, path, 'type', 'must be a comparison, {"AND": [...]} or {"OR": [...]}');
  // Panels put keys of their own into conditions, such as an `_id`: what is not known here is left out.
  const [key, another] = Object.keys(node).filter((name) => name === 'AND' || name === 'OR');
  if (key === undefined) return parseLeaf(state, node, path);
  if (another !== undefined || node.schemaField !== undefined)
    return report(state, path, 'keys', 'a group is either AND or OR, and no comparison');
  const children = node[key];
  if (!Array.isArray(children)) return report(state, `${path}.${key}`, 'type', 'must be a list');
  if (children.length === 0)
    return report(state, `${path}.${key}`, 'minItems', 'must have at least one part');
  const parsed = children.map((child, index) =>
    parseNode(state, child, { path: `${path}.${key}.${index}`, depth: depth + 1 }),
  );
  const complete = parsed.filter((child) => child !== undefined);
  return key === 'AND' ? { AND: complete } : { OR: complete };
}

const noKeys: ReadonlySet<string> = new Set();
const comparisonKeys: ReadonlySet<string> = new Set([
  'type',
  'value',
  'like',
  'caseSensitiveLike',
  'search',
]);
const sources: ReadonlySet<unknown> = new Set(['Input', 'Custom', 'Context', 'Schema']);

function parseLeaf(
  state: ParseState,
  node: Record<string, unknown>,
  path: string,
): QueryLeaf | undefined {
  const before = state.problems.length;
  const { schemaField, operation, comparisonField } = node;
  const isComparison = [schemaField, operation, comparisonField].some((one) => one !== undefined);
  if (!isComparison && Object.keys(node).length > 0)
    return refuseUnknown(state, node, noKeys, path);
  if (typeof schemaField !== 'string' || schemaField === '')
    report(state, `${path}.schemaField`, 'required', 'must name a field');
  if (
    !Number.isInteger(operation) ||
    Number(operation) < 0 ||
    Number(operation) > LAST_COMPARISON
  ) {
    report(
      state,
      `${path}.operation`,
      'range',
      `must be a comparison from 0 to ${LAST_COMPARISON}`,
    );
  }
  if (!isObject(comparisonField))
    return report(state, `${path}.comparisonField`, 'type', 'must be {"type", "value"}');
  checkComparison(state, comparisonField, {
    place: `${path}.comparisonField`,
    operation: Number(operation),
  });
  if (state.problems.length > before) return undefined;
  return { schemaField, operation, comparisonField } as unknown as QueryLeaf;
}

function checkComparison(
  state: ParseState,
  given: Record<string, unknown>,
  { place, operation }: { place: string; operation: number },
): void {
  refuseUnknown(state, given, comparisonKeys, place);
  if (!sources.has(given.type))
    report(state, `${place}.type`, 'enum', 'must be Input, Custom, Context or Schema');
  else if (given.type !== 'Custom' && typeof given.value !== 'string')
    report(state, `${place}.value`, 'type', 'must be a name');
  else if (given.value === undefined) report(state, `${place}.value`, 'required', 'is required');
  for (const flag of ['like', 'caseSensitiveLike', 'search']) {
    if (given[flag] !== undefined && typeof given[flag] !== 'boolean')
      report(state, `${place}.${flag}`, 'type', 'must be true or false');
  }
  checkTextSearch(state, given, { place, operation });
  if (
    given.type === 'Schema' &&
    (operation === comparisonCode.in || operation === comparisonCode.notIn)
  ) {
    report(state, `${place}.type`, 'operation', 'another field of the record is no list of values');
  }
}

/** `like` and `search` are ways to be equal. */
function checkTextSearch(
  state: ParseState,
  { type, like, search }: Record<string, unknown>,
  { place, operation }: { place: string; operation: number },
): void {
  if (like !== true && search !== true) return;
  const key = like === true ? 'like' : 'search';
  if (operation > comparisonCode.notEqual) {
    report(
      state,
      `${place}.${key}`,
      'operation',
      'goes with the operations 0 (equal) and 1 (not equal) only',
    );
  }
  if (like === search) report(state, `${place}.search`, 'operation', 'goes without like');
  if (type === 'Schema')
    report(state, `${place}.${key}`, 'operation', 'does not go with another field of the record');
}

function refuseUnknown(
  state: ParseState,
  given: Record<string, unknown>,
  known: ReadonlySet<string>,
  path: string,
): undefined {
  for (const key of Object.keys(given))
    if (!known.has(key)) report(state, `${path}.${shortName(key)}`, 'unknown', 'is not known here');
}

/* What a tree means: a condition whose values may still be inputs of a call and values of its context. */

export type EndpointLeaf = Leaf<FieldOperand, Test<Operand>>;
export type EndpointCondition = Tree<EndpointLeaf>;

/** `undefined`: every record. The places are those of the tree. */
export const treeCondition = (query: QueryTree | null): EndpointCondition | undefined =>
  query ? nodeCondition(query, 'query') : undefined;

function nodeCondition(tree: QueryTree, place: string): EndpointCondition {
  if ('schemaField' in tree) return leafCondition(tree, place);
  const [key, parts] = 'AND' in tree ? (['AND', tree.AND] as const) : (['OR', tree.OR] as const);
  return {
    kind: key === 'AND' ? 'all' : 'any',
    of: parts.map((part, index) => nodeCondition(part, `${place}.${key}.${index}`)),
  };
}

const comparisons: ReadonlyMap<number, Comparison> = new Map([
  [comparisonCode.greater, 'greater'],
  [comparisonCode.greaterOrEqual, 'greaterOrEqual'],
  [comparisonCode.less, 'less'],
  [comparisonCode.lessOrEqual, 'lessOrEqual'],
]);

const negated: ReadonlySet<number> = new Set([comparisonCode.notEqual, comparisonCode.notIn]);

function leafCondition(leaf: QueryLeaf, place: string): EndpointCondition {
  const test = { kind: 'test', left: field(leaf.schemaField), test: testOf(leaf), place } as const;
  return negated.has(leaf.operation) ? not<EndpointLeaf>(test) : test;
}

function testOf({ operation, comparisonField }: QueryLeaf): Test<Operand> {
  const { like, caseSensitiveLike, search } = comparisonField;
  const right = operandOf(comparisonField);
  if (right.kind === 'field') return { kind: comparisons.get(operation) ?? 'equal', right };
  if (like) return { kind: 'like', right, wildcards: false, ignoreCase: !caseSensitiveLike };
  if (search) return { kind: 'search', right };
  if (operation === comparisonCode.in || operation === comparisonCode.notIn)
    return { kind: 'in', right };
  return { kind: comparisons.get(operation) ?? 'equal', right };
}

/** Where the value of a comparison or an assignment comes from. */
export function operandOf({ type, value }: ValueSource): Operand {
  switch (type) {
    case 'Input':
      return { kind: 'input', name: String(value) };
    case 'Context':
      return { kind: 'context', name: String(value) };
    case 'Schema':
      return field(String(value));
    case 'Custom':
      return literal(value ?? null);
  }
}

/** Values of the request's context that an endpoint uses: `user._id`, or other fields of whoever calls. */
export function contextPaths({
  query,
  assignments,
}: Pick<EndpointDefinition, 'query' | 'assignments'>): readonly string[] {
  const condition = treeCondition(query);
  const compared = condition
    ? [...leavesOf(condition)].flatMap(({ test }) => ('right' in test ? test.right : []))
    : [];
  const assigned = assignments.map(({ assignmentField: { type, value } }) =>
    operandOf({ type, value }),
  );
  return [...compared, ...assigned].flatMap((operand) =>
    operand.kind === 'context' ? operand.name : [],
  );
}

/** What every caller has, whatever else is known of them. */
const ownId = 'user._id';

/** Whether more of the caller is read than who it is. */
export const readsUser = (endpoint: Pick<EndpointDefinition, 'query' | 'assignments'>): boolean =>
  contextPaths(endpoint).some((path) => path !== ownId);
