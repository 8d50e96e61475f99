/** Records of any schema in the hands of an admin (spec/database.md 2.3). */

import { parseFilter } from '../../../data/conditions/parse.ts';
import type {
  ListOptions,
  RecordInput,
  RecordStore,
  RecordText,
  WriteOptions,
} from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { automaticFields, shortName } from '../../../data/schema/language/names.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { type Problem, relocated } from '../../../kernel/errors.ts';
import { databaseErrors } from '../errors.ts';
import { extensionFields } from './endpoints/definition.ts';

export interface DocumentQuery
  extends Pick<ListOptions, 'skip' | 'limit' | 'cursor' | 'count' | 'sort'> {
  readonly query: unknown;
}

export interface Documents {
  get(caller: Caller, schema: string, id: string, populate: readonly string[]): Promise<RecordText>;
  /** `{"documents":[...],"count":n}`, with `nextCursor` when paged by cursor. */
  query(caller: Caller, schema: string, query: DocumentQuery): Promise<string>;
  create(caller: Caller, schema: string, input: RecordInput): Promise<RecordText>;
  createMany(
    caller: Caller,
    schema: string,
    inputs: readonly RecordInput[],
  ): Promise<readonly RecordText[]>;
  /** Merged over what is stored. */
  update(
    caller: Caller,
    schema: string,
    id: string,
    input: RecordInput,
    options?: Seen,
  ): Promise<RecordText>;
  updateMany(
    caller: Caller,
    schema: string,
    inputs: readonly RecordInput[],
  ): Promise<readonly RecordText[]>;
  remove(caller: Caller, schema: string, id: string, options?: Seen): Promise<void>;
  /** Throws 404 when the schema is not there, or belongs to a module that keeps its records to itself. */
  writable(schema: string, change: Change): CompiledSchema;
}

/** What the admin saw of a record that they change. */
type Seen = Pick<WriteOptions, 'expectedVersion'>;

type Change = 'create' | 'modify' | 'delete';

export function createDocuments(records: RecordStore, schemas: SchemaRegistry): Documents {
  function writable(name: string, change: Change): CompiledSchema {
    const schema = schemas.get(name);
    if (!schema || !allows(schema, change)) throw databaseErrors.DOCUMENTS_READ_ONLY();
    return schema;
  }

  /** What may be changed as a whole, or for these inputs because they only touch what admins have added. */
  function modifiable(name: string, inputs: readonly RecordInput[]): CompiledSchema {
    const schema = schemas.get(name);
    return schema && staysInExtension(schema, inputs) ? schema : writable(name, 'modify');
  }

  return {
    writable,
    get: (caller, schema, id, populate) => records.get(caller, schema, id, { populate }),
    async query(caller, schema, { query, ...page }) {
      if (!schemas.get(schema)) throw schemaErrors.SCHEMA_NOT_FOUND();
      return records.select(caller, schema, { filter: parseFilter(query), ...page });
    },
    create: (caller, schema, input) =>
      inDocument('inputDocument', async () =>
        records.create(caller, writable(schema, 'create').name, input),
      ),
    createMany: (caller, schema, inputs) =>
      inDocuments('inputDocuments', async () =>
        records.createMany(caller, writable(schema, 'create').name, inputs),
      ),
    async update(...[caller, name, id, input, options]) {
      const schema = modifiable(name, [input]);
      requireFields(unknownFields(schema, input, 'changedDocument'));
      return inDocument('changedDocument', () =>
        records.update(caller, schema.name, id, input, options),
      );
    },
    async updateMany(caller, name, inputs) {
      const schema = modifiable(name, inputs);
      requireFields(
        inputs.flatMap((input, index) => unknownFields(schema, input, `changedDocuments.${index}`)),
      );
      return inDocuments('changedDocuments', () => records.updateMany(caller, schema.name, inputs));
    },
    async remove(caller, schema, id, options) {
      await records.remove(caller, writable(schema, 'delete').name, id, options);
    },
  };
}

/** Does something with a record that the body holds under a name of its own, so that faults are found there. */
const inDocument = <T>(name: string, work: () => Promise<T>): Promise<T> =>
  placed(work, (path) => (path === 'id' ? path : `${name}.${path}`));
/** The same for a list of records, which the record engine calls `docs`. */
const inDocuments = <T>(name: string, work: () => Promise<T>): Promise<T> =>
  placed(work, (path) => path.replace(/^docs\b/, name));

async function placed<T>(work: () => Promise<T>, move: (path: string) => string): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw relocated(error, move);
  }
}

/** A module's own schema says what others may do with its records; by itself: nothing. */
function allows({ ownerModule, modelOptions }: CompiledSchema, change: Change): boolean {
  if (ownerModule === adminOwner) return true;
  const { canCreate, canModify, canDelete } = modelOptions.conduit.permissions;
  if (change === 'create') return canCreate;
  return change === 'delete' ? canDelete : canModify === 'Everything';
}

/** `ExtensionOnly`: others may change the fields that they have added, and nothing else. */
function staysInExtension(schema: CompiledSchema, inputs: readonly RecordInput[]): boolean {
  if (schema.modelOptions.conduit.permissions.canModify !== 'ExtensionOnly') return false;
  const own = new Set(['_id', ...extensionFields(schema)]);
  return own.size > 1 && inputs.every((input) => Object.keys(input).every((name) => own.has(name)));
}

const unknownFields = ({ tree }: CompiledSchema, input: RecordInput, place: string): Problem[] =>
  Object.keys(input)
    .filter((name) => !tree.fields.has(name) && !automaticFields.has(name))
    .map((name) => ({
      path: `${place}.${shortName(name)}`,
      rule: 'field',
      message: 'is not a field of this schema',
    }));

function requireFields(problems: readonly Problem[]): void {
  if (problems.length > 0) throw databaseErrors.WRONG_FIELDS({ errors: problems });
}
