/** Records of any schema in the hands of an admin (spec/database.md 2.3). */
import type { Caller } from '../../../kernel/caller.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { parseFilter } from '../../../kernel/records/filter/parse.ts';
import type { RecordInput, RecordStore, RecordText } from '../../../kernel/records/store.ts';
import type { CompiledSchema } from '../../../kernel/schema/compiled.ts';
import { adminOwner } from '../../../kernel/schema/draft.ts';
import { schemaErrors } from '../../../kernel/schema/errors.ts';
import { automaticFields, shown } from '../../../kernel/schema/names.ts';
import type { SchemaRegistry } from '../../../kernel/schema/registry.ts';
import { databaseErrors } from '../errors.ts';

export interface DocumentQuery {
  readonly query: unknown;
  readonly skip?: number;
  readonly limit?: number;
  readonly sort?: readonly string[];
}

export interface Documents {
  get(caller: Caller, schema: string, id: string, populate: readonly string[]): Promise<RecordText>;
  /** `{"documents":[...],"count":n}`. */
  query(caller: Caller, schema: string, query: DocumentQuery): Promise<string>;
  create(caller: Caller, schema: string, input: RecordInput): Promise<RecordText>;
  createMany(caller: Caller, schema: string, inputs: readonly RecordInput[]): Promise<readonly RecordText[]>;
  /** Merged over what is stored. */
  update(caller: Caller, schema: string, id: string, input: RecordInput): Promise<RecordText>;
  updateMany(caller: Caller, schema: string, inputs: readonly RecordInput[]): Promise<readonly RecordText[]>;
  remove(caller: Caller, schema: string, id: string): Promise<void>;
}

type Change = 'create' | 'modify' | 'delete';

export function createDocuments(records: RecordStore, schemas: SchemaRegistry): Documents {
  /** Throws 404 when the schema is not there, or belongs to a module that keeps its records to itself. */
  function writable(name: string, change: Change): CompiledSchema {
    const schema = schemas.get(name);
    if (!schema || !allows(schema, change)) throw databaseErrors.DOCUMENTS_READ_ONLY();
    return schema;
  }

  return {
    get: (caller, schema, id, populate) => records.get(caller, schema, id, { populate }),
    async query(caller, schema, { query, ...page }) {
      if (!schemas.get(schema)) throw schemaErrors.SCHEMA_NOT_FOUND();
      return records.select(caller, schema, { filter: parseFilter(query), ...page });
    },
    create: async (caller, schema, input) => records.create(caller, writable(schema, 'create').name, input),
    createMany: async (caller, schema, inputs) => records.createMany(caller, writable(schema, 'create').name, inputs),
    async update(...[caller, name, id, input]) {
      const schema = writable(name, 'modify');
      requireFields(unknownFields(schema, input, 'changedDocument'));
      return records.update(caller, schema.name, id, input);
    },
    async updateMany(caller, name, inputs) {
      const schema = writable(name, 'modify');
      requireFields(inputs.flatMap((input, index) => unknownFields(schema, input, `changedDocuments.${index}`)));
      return records.updateMany(caller, schema.name, inputs);
    },
    async remove(caller, schema, id) {
      await records.remove(caller, writable(schema, 'delete').name, id);
    },
  };
}

/** A module's own schema says what others may do with its records; by itself: nothing. */
function allows({ ownerModule, modelOptions }: CompiledSchema, change: Change): boolean {
  if (ownerModule === adminOwner) return true;
  const { canCreate, canModify, canDelete } = modelOptions.conduit.permissions;
  if (change === 'create') return canCreate;
  return change === 'delete' ? canDelete : canModify === 'Everything';
}

const unknownFields = ({ tree }: CompiledSchema, input: RecordInput, place: string): Problem[] =>
  Object.keys(input)
    .filter((name) => !tree.fields.has(name) && !automaticFields.has(name))
    .map((name) => ({ path: `${place}.${shown(name)}`, rule: 'field', message: 'is not a field of this schema' }));

function requireFields(problems: readonly Problem[]): void {
  if (problems.length > 0) throw databaseErrors.WRONG_FIELDS({ errors: problems });
}
