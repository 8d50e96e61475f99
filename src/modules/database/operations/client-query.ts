/** `POST /database/{Schema}/query`: lists with a filter, where a schema allows it. The plain list has none. */
import Type from 'typebox';
import { parseFilter } from '../../../data/conditions/parse.ts';
import { recordErrors } from '../../../data/records/errors.ts';
import type { RecordStore } from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { defineOperation, Reply } from '../../../kernel/operation.ts';
import { invalidInput } from '../../../kernel/operations/problems.ts';
import { allowsQuery, requireAllowed } from '../services/client-query.ts';
import { listFacts } from './page-facts.ts';
import { listQuery, type RecordOperation, recordFacts } from './record-facts.ts';

/** The route, or nothing while the schema does not switch it on. */
export function clientQueryOperations(records: RecordStore, schemas: SchemaRegistry, schema: CompiledSchema): readonly RecordOperation[] {
  const { name, modelOptions } = schema;
  const { query: allowed } = modelOptions.conduit.cms;
  if (!allowsQuery(allowed)) return [];
  const facts = recordFacts(schema, 'read');
  const urlQuery = listQuery(schema);
  const inUrl: ReadonlySet<string> = new Set(Object.keys(urlQuery.properties));
  const operation = defineOperation({
    ...facts,
    id: `database.records.${name}.query`,
    method: 'POST',
    path: `/database/${name}/query`,
    idempotency: false,
    bodyLimit: 64 * 1024,
    heavy: true,
    errors: [...facts.errors, recordErrors.RECORD_INVALID],
    input: {
      query: urlQuery,
      body: Type.Object(
        { query: Type.Unknown({ description: `Conditions on ${(allowed?.fields ?? []).join(', ') || 'no field'}` }) },
        { additionalProperties: true },
      ),
    },
    output: Type.Object({ documents: Type.Array(schema.shapes.record), ...listFacts }),
    summary: `Find ${name} records`,
    async handler({ caller }, { query, body }) {
      requireNothingElse(body, inUrl);
      const filter = parseFilter(body.query);
      requireAllowed(schemas, schema, filter);
      return Reply.json(await records.select(caller, name, { ...query, filter }));
    },
  });
  return [{ crud: 'read', operation }];
}

/** What stands beside the conditions would be left out in silence, and pages would not be what was asked for. Throws 400. */
function requireNothingElse(body: object, inUrl: ReadonlySet<string>): void {
  const strays = Object.keys(body).filter((key) => key !== 'query');
  const message = (key: string): string =>
    inUrl.has(key) ? `belongs in the URL: ?${key}=` : 'is not known here: the body has query alone';
  if (strays.length > 0) throw invalidInput(strays.map((key) => ({ path: key, rule: 'unknown', message: message(key) })));
}
