/** `POST /database/{Schema}/query`: lists with a filter, where a schema allows it. The plain list has none. */
import Type from 'typebox';
import { defineOperation, Reply } from '../../../kernel/operation.ts';
import { recordErrors } from '../../../kernel/records/errors.ts';
import { parseFilter } from '../../../kernel/records/filter/parse.ts';
import type { RecordStore } from '../../../kernel/records/store.ts';
import type { CompiledSchema } from '../../../kernel/schema/compiled.ts';
import type { SchemaRegistry } from '../../../kernel/schema/registry.ts';
import { allowsQuery, requireAllowed } from '../services/client-query.ts';
import { listFacts } from './page-facts.ts';
import { listQuery, type RecordOperation, recordFacts } from './record-facts.ts';

/** The route, or nothing while the schema does not switch it on. */
export function clientQueryOperations(records: RecordStore, schemas: SchemaRegistry, schema: CompiledSchema): readonly RecordOperation[] {
  const { name, modelOptions } = schema;
  const { query: allowed } = modelOptions.conduit.cms;
  if (!allowsQuery(allowed)) return [];
  const facts = recordFacts(schema, 'read');
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
      query: listQuery(schema),
      body: Type.Object({ query: Type.Unknown({ description: `Conditions on ${(allowed?.fields ?? []).join(', ') || 'no field'}` }) }),
    },
    output: Type.Object({ documents: Type.Array(schema.shapes.record), ...listFacts }),
    summary: `Find ${name} records`,
    async handler({ caller }, { query, body }) {
      const filter = parseFilter(body.query);
      requireAllowed(schemas, schema, filter);
      return Reply.json(await records.select(caller, name, { ...query, filter }));
    },
  });
  return [{ crud: 'read', operation }];
}
