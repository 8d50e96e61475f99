/** `POST /database/{Schema}/query`: lists with a filter, where a schema allows it. The plain list has none. */
import Type, { type TSchema } from 'typebox';
import { type Condition, type Leaf, leavesOf } from '../../../data/conditions/condition.ts';
import { parseFilter } from '../../../data/conditions/parse.ts';
import { invalidRecord, recordErrors } from '../../../data/records/errors.ts';
import { PathError, resolveTarget } from '../../../data/records/filter/target.ts';
import type { RecordStore } from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { QuerySwitch } from '../../../data/schema/language/definition.ts';
import { shortName } from '../../../data/schema/language/names.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { defineOperation, Reply } from '../../../kernel/operations/operation.ts';
import { invalidInput } from '../../../kernel/operations/problems.ts';
import { listFacts } from '../services/listing.ts';
import { allowedOperators, filterShape } from './filter-shape.ts';
import { listQuery, liveQuery, type RecordOperation, recordFacts } from './record-facts.ts';

/* What clients may ask when a schema lets them filter: fields, operators and effort that its author allowed. */

const DEFAULT_COST = 20;

/** Throws one 400 with everything that is not allowed. */
function requireAllowed(
  schemas: SchemaRegistry,
  schema: CompiledSchema,
  condition: Condition,
): void {
  const allowed = schema.modelOptions.conduit.cms.query ?? {};
  const { fields = [], maxCost = DEFAULT_COST } = allowed;
  const { operators, tests } = allowedOperators(allowed);
  const problems: Problem[] = [];
  let cost = 0;
  for (const leaf of leavesOf(condition)) {
    const { path } = leaf.left;
    if (!fields.includes(path))
      problems.push({
        path: leaf.place,
        rule: 'field',
        message: `"${shortName(path)}" cannot be filtered by`,
      });
    else if (!tests.has(leaf.test.kind))
      problems.push({
        path: leaf.place,
        rule: 'operator',
        message: `takes only ${operators.join(', ')}`,
      });
    else cost += costOf(schemas, schema, leaf);
  }
  if (cost > maxCost)
    problems.push({
      path: 'query',
      rule: 'cost',
      message: `costs ${cost} points; at most ${maxCost} are allowed`,
    });
  if (problems.length > 0) throw invalidRecord(problems);
}

/** Points: a comparison 1, each relation on the way 3, looking into text 5, each hundred values of a list 1. */
function costOf(schemas: SchemaRegistry, schema: CompiledSchema, { left, test }: Leaf): number {
  const text = test.kind === 'like' || test.kind === 'matches' || test.kind === 'search' ? 5 : 0;
  const list = test.kind === 'in' && test.right.kind === 'literal' ? test.right.value : [];
  const values = Array.isArray(list) ? Math.floor(list.length / 100) : 0;
  return 1 + text + values + 3 * relationsOf(schemas, schema, left.path);
}

/** A path that leads nowhere costs nothing: it is refused later, with its place. */
function relationsOf(schemas: SchemaRegistry, schema: CompiledSchema, path: string): number {
  try {
    return resolveTarget(schema, path, { schema: (name) => schemas.get(name), hidden: false }).hops
      .length;
  } catch (error) {
    if (error instanceof PathError) return 0;
    throw error;
  }
}

const allowsQuery = (query: QuerySwitch | undefined): boolean => query?.enabled === true;

/** The route, or nothing while the schema does not switch it on. */
export function clientQueryOperations(
  records: RecordStore,
  schemas: SchemaRegistry,
  schema: CompiledSchema,
): readonly RecordOperation[] {
  const { name, modelOptions } = schema;
  const { query: allowed } = modelOptions.conduit.cms;
  if (!allowsQuery(allowed)) return [];
  const facts = recordFacts(schema, 'read');
  const urlQuery = listQuery(schema);
  const inUrl: ReadonlySet<string> = new Set(Object.keys(urlQuery.properties));
  const filterOf = (body: { readonly query?: unknown }): Condition => {
    requireNothingElse(body, inUrl);
    const filter = parseFilter(body.query);
    requireAllowed(schemas, schema, filter);
    return filter;
  };
  const operation = defineOperation({
    ...facts,
    id: `database.records.${name}.query`,
    method: 'POST',
    path: `/database/${name}/query`,
    idempotency: false,
    bodyLimit: 64 * 1024,
    heavy: true,
    errors: [...facts.errors, recordErrors.RECORD_INVALID, recordErrors.COUNT_TIMEOUT],
    input: {
      query: urlQuery,
      body: filterBody(filterShape(schema, allowed ?? {})),
    },
    output: Type.Object({ documents: Type.Array(schema.shapes.record), ...listFacts }),
    summary: `Find ${name} records`,
    live: async (caller, { query, body }) =>
      records.live(caller, name, { ...liveQuery(query), filter: filterOf(body as object) }),
    handler: async ({ caller }, { query, body }) =>
      Reply.json(await records.select(caller, name, { ...query, filter: filterOf(body) })),
  });
  return [{ crud: 'read', operation }];
}

/** Taken with anything beside it, so that what is refused is told by its place; nothing else is offered. */
const filterBody = (query: TSchema) =>
  Type.Object(
    { query },
    {
      additionalProperties: true,
      published: () => Type.Object({ query }, { additionalProperties: false }),
    },
  );

/** What stands beside the conditions would be left out in silence, and pages would not be what was asked for. Throws 400. */
function requireNothingElse(body: object, inUrl: ReadonlySet<string>): void {
  const strays = Object.keys(body).filter((key) => key !== 'query');
  const message = (key: string): string =>
    inUrl.has(key) ? `belongs in the URL: ?${key}=` : 'is not known here: the body has query alone';
  if (strays.length > 0)
    throw invalidInput(
      strays.map((key) => ({ path: key, rule: 'unknown', message: message(key) })),
    );
}
