/** The client routes of one schema for many records: all of a request happens, or nothing. */
import Type, { type TObject } from 'typebox';
import type { RecordInput, RecordStore } from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { noOperators } from '../../../data/schema/compile/shapes.ts';
import { platformKey } from '../../../data/schema/language/record-key.ts';
import { defineOperation } from '../../../kernel/operations/operation.ts';
import { docsReply, type RecordOperation, recordFacts, scopeQuery } from './record-facts.ts';

export const bulkRecordOperations = (
  records: RecordStore,
  schema: CompiledSchema,
): readonly RecordOperation[] => [
  createMany(records, schema),
  updateMany(records, schema),
  replaceMany(records, schema),
];

const MAX_DOCS = 1_000;
const BODY_LIMIT = 8 * 1024 * 1024;

const docsBody = (shape: TObject): TObject =>
  Type.Object({ docs: Type.Array(shape, { maxItems: MAX_DOCS }) });
/** Published as the shape and an id, so that documents need not repeat the fields. */
function withId({ key }: CompiledSchema, shape: TObject): TObject {
  const _id =
    key === platformKey ? Type.String({ format: 'uuid' }) : Type.String({ maxLength: 1_024 });
  const published = () => Type.Intersect([shape, Type.Object({ _id })]);
  return Type.Object({ _id, ...shape.properties }, { ...noOperators, published });
}
const docsOf = (body: unknown): readonly RecordInput[] =>
  (body as { readonly docs: readonly RecordInput[] }).docs;

function createMany(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name, shapes } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'create'),
    id: `database.records.${name}.createMany`,
    method: 'POST',
    path: `/database/${name}/many`,
    bodyLimit: BODY_LIMIT,
    heavy: true,
    input: { query: scopeQuery(schema), body: docsBody(shapes.create) },
    output: Type.Object({ docs: Type.Array(shapes.record) }),
    summary: `Create many ${name} records`,
    handler: async ({ caller }, { query, body }) =>
      docsReply(await records.createMany(caller, name, docsOf(body), query)),
  });
  return { crud: 'create', operation };
}

function updateMany(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name, shapes } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'update'),
    id: `database.records.${name}.updateMany`,
    method: 'PATCH',
    path: `/database/${name}/many`,
    bodyLimit: BODY_LIMIT,
    heavy: true,
    input: { query: scopeQuery(schema), body: docsBody(withId(schema, shapes.update)) },
    output: Type.Object({ docs: Type.Array(shapes.record) }),
    summary: `Change many ${name} records`,
    handler: async ({ caller }, { query, body }) =>
      docsReply(await records.updateMany(caller, name, docsOf(body), query)),
  });
  return { crud: 'update', operation };
}

function replaceMany(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name, shapes } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'update'),
    id: `database.records.${name}.replaceMany`,
    method: 'PUT',
    path: `/database/${name}/many`,
    bodyLimit: BODY_LIMIT,
    heavy: true,
    input: { query: scopeQuery(schema), body: docsBody(withId(schema, shapes.create)) },
    output: Type.Object({ docs: Type.Array(shapes.record) }),
    summary: `Replace many ${name} records`,
    handler: async ({ caller }, { query, body }) =>
      docsReply(await records.replaceMany(caller, name, docsOf(body), query)),
  });
  return { crud: 'update', operation };
}
