/** What clients may ask when a schema lets them filter: fields, operators and effort that its author allowed. */

import { type Condition, type Leaf, leavesOf, type Test } from '../../../data/conditions/condition.ts';
import { invalidRecord } from '../../../data/records/errors.ts';
import { PathFault, resolveTarget } from '../../../data/records/filter/target.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { QuerySwitch } from '../../../data/schema/language/definition.ts';
import { shown } from '../../../data/schema/language/names.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Problem } from '../../../kernel/errors.ts';

/** What is allowed unless the schema says otherwise: what an index can answer. */
const defaultOperators: readonly string[] = ['$eq', '$ne', '$gt', '$gte', '$lt', '$lte', '$in', '$nin', '$exists'];
const DEFAULT_COST = 20;

/** The tests that an operator of the language becomes; opposites are the same test. */
const testsOf: ReadonlyMap<string, Test['kind']> = new Map<string, Test['kind']>([
  ['$eq', 'equal'],
  ['$ne', 'equal'],
  ['$gt', 'greater'],
  ['$gte', 'greaterOrEqual'],
  ['$lt', 'less'],
  ['$lte', 'lessOrEqual'],
  ['$in', 'in'],
  ['$nin', 'in'],
  ['$exists', 'exists'],
  ['$like', 'like'],
  ['$ilike', 'like'],
  ['$regex', 'matches'],
  ['$search', 'search'],
]);

/** Throws one 400 with everything that is not allowed. */
export function requireAllowed(schemas: SchemaRegistry, schema: CompiledSchema, condition: Condition): void {
  const { fields = [], operators = defaultOperators, maxCost = DEFAULT_COST } = schema.modelOptions.conduit.cms.query ?? {};
  const tests = new Set(operators.flatMap((name) => testsOf.get(name) ?? []));
  const problems: Problem[] = [];
  let cost = 0;
  for (const leaf of leavesOf(condition)) {
    if (!fields.includes(leaf.path))
      problems.push({ path: leaf.place, rule: 'field', message: `"${shown(leaf.path)}" cannot be filtered by` });
    else if (!tests.has(leaf.test.kind))
      problems.push({ path: leaf.place, rule: 'operator', message: `takes only ${operators.join(', ')}` });
    else cost += costOf(schemas, schema, leaf);
  }
  if (cost > maxCost) problems.push({ path: 'query', rule: 'cost', message: `costs ${cost} points; at most ${maxCost} are allowed` });
  if (problems.length > 0) throw invalidRecord(problems);
}

/** Points: a comparison 1, each relation on the way 3, looking into text 5, each hundred values of a list 1. */
function costOf(schemas: SchemaRegistry, schema: CompiledSchema, { path, test }: Leaf): number {
  const text = test.kind === 'like' || test.kind === 'matches' || test.kind === 'search' ? 5 : 0;
  const values = test.kind === 'in' ? Math.floor(test.values.length / 100) : 0;
  return 1 + text + values + 3 * relationsOf(schemas, schema, path);
}

/** A path that leads nowhere costs nothing: it is refused later, with its place. */
function relationsOf(schemas: SchemaRegistry, schema: CompiledSchema, path: string): number {
  try {
    return resolveTarget(schema, path, { schema: (name) => schemas.get(name), hidden: false }).hops.length;
  } catch (error) {
    if (error instanceof PathFault) return 0;
    throw error;
  }
}

export const allowsQuery = (query: QuerySwitch | undefined): boolean => query?.enabled === true;
