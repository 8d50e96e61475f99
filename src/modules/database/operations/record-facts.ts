/** What the client routes of all schemas have in common. */
import Type, { type TObject, type TProperties } from 'typebox';
import { errors, invalid } from '../../../kernel/errors.ts';
import { type Operation, Reply, standardLimit } from '../../../kernel/operation.ts';
import { needsUser } from '../../../kernel/records/access.ts';
import { recordErrors } from '../../../kernel/records/errors.ts';
import type { RecordText, WriteOptions } from '../../../kernel/records/store.ts';
import type { CompiledSchema } from '../../../kernel/schema/compiled.ts';
import { schemaErrors } from '../../../kernel/schema/errors.ts';
import type { CrudOperation } from '../../../kernel/schema/options.ts';

/** A route, and the switch of the schema that it hangs on. */
export interface RecordOperation {
  readonly crud: CrudOperation;
  readonly operation: Operation;
}

const baseErrors = [schemaErrors.SCHEMA_NOT_FOUND, recordErrors.POPULATE_FORBIDDEN, recordErrors.PERMISSIONS_UNAVAILABLE];
const { RECORD_NOT_FOUND, RECORD_NOT_UNIQUE, RECORD_IN_USE, WRITE_CONFLICT } = recordErrors;
const errorsOf = {
  read: [...baseErrors, RECORD_NOT_FOUND],
  create: [...baseErrors, RECORD_NOT_UNIQUE, WRITE_CONFLICT],
  update: [...baseErrors, RECORD_NOT_FOUND, RECORD_NOT_UNIQUE, WRITE_CONFLICT, errors.PRECONDITION_FAILED, errors.FORBIDDEN],
  delete: [...baseErrors, RECORD_NOT_FOUND, RECORD_IN_USE, WRITE_CONFLICT, errors.PRECONDITION_FAILED, errors.FORBIDDEN],
};

/** `authenticated` and row authorization decide who may call. */
export const recordFacts = (schema: CompiledSchema, crud: CrudOperation) =>
  ({
    surface: 'client',
    access: needsUser(schema, crud) ? 'user' : 'optionalUser',
    limit: standardLimit,
    errors: errorsOf[crud],
  }) as const;

const populate = Type.Optional(
  Type.Array(Type.String({ maxLength: 256 }), { maxItems: 10, description: 'Relations to include as records; dots for depth, at most 3' }),
);
const scope = Type.Optional(Type.String({ maxLength: 256, description: 'Act on behalf of this resource, as <Type>:<id>' }));

const readFields = { populate, scope };
const listFields = {
  skip: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000_000_000, default: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, default: 25 })),
  sort: Type.Optional(Type.Array(Type.String({ maxLength: 64 }), { maxItems: 8, description: 'Fields; - in front: descending' })),
  ...readFields,
};

/** `scope` is declared only where rows are a matter of permission; elsewhere it never arrives. */
function withoutScope<F extends { readonly scope: typeof scope }>(schema: CompiledSchema, fields: F): TObject<F> {
  if (schema.modelOptions.conduit.authorization.enabled) return Type.Object(fields);
  const { scope: _, ...others } = fields;
  return Type.Object(others as TProperties) as unknown as TObject<F>;
}

export const scopeQuery = (schema: CompiledSchema) => withoutScope(schema, { scope });
export const readQuery = (schema: CompiledSchema) => withoutScope(schema, readFields);
export const listQuery = (schema: CompiledSchema) => withoutScope(schema, listFields);

export const idParams = Type.Object({ id: Type.String({ maxLength: 64 }) });

export const ifMatch = Type.Object({
  'if-match': Type.Optional(Type.String({ maxLength: 64, description: 'The ETag that you saw; another version stored is 412' })),
});

/** The version of an `If-Match` header. `*` asks only that the record exists, which a change asks anyway. */
export function expectedVersion(header: string | undefined): Pick<WriteOptions, 'expectedVersion'> {
  const tag = header?.trim();
  if (tag === undefined || tag === '*') return {};
  const version = /^"(\d{1,9})"$/.exec(tag)?.[1];
  if (version !== undefined) return { expectedVersion: Number(version) };
  throw invalid('if-match', 'format', 'must be one version such as "3", as the ETag header has it, or *');
}

export const recordReply = ({ json, version }: RecordText): Reply => Reply.json(json, { etag: `"${version}"` });

/** `{docs: [...]}` of records that are JSON text. */
export const docsReply = (records: readonly RecordText[]): Reply => Reply.json(`{"docs":[${records.map(({ json }) => json).join(',')}]}`);
