/** What the client routes of all schemas have in common. */
import Type, { type TObject, type TProperties } from 'typebox';
import { needsUser } from '../../../data/records/access/operation-access.ts';
import { recordErrors } from '../../../data/records/errors.ts';
import { externalTableErrors } from '../../../data/records/external-table-errors.ts';
import type { ListOptions, LiveOptions, RecordText } from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { CrudOperation } from '../../../data/schema/language/options.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { etagOf, renditionOf } from '../../../kernel/operations/if-match.ts';
import { type Operation, Reply, standardLimit } from '../../../kernel/operations/operation.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import { countQuery, cursorQuery } from '../services/listing.ts';

/** A route, and the switch of the schema that it hangs on. */
export interface RecordOperation {
  readonly crud: CrudOperation;
  readonly operation: Operation;
}

const baseErrors = [
  schemaErrors.SCHEMA_NOT_FOUND,
  recordErrors.POPULATE_FORBIDDEN,
  recordErrors.PERMISSIONS_UNAVAILABLE,
];
const {
  FIELD_FORBIDDEN,
  RECORD_NOT_FOUND,
  RECORD_NOT_UNIQUE,
  RECORD_IN_USE,
  DEPENDANT_LIMIT_EXCEEDED,
  WRITE_CONFLICT,
} = recordErrors;
const errorsOf = {
  read: [...baseErrors, RECORD_NOT_FOUND],
  create: [...baseErrors, FIELD_FORBIDDEN, RECORD_NOT_UNIQUE, WRITE_CONFLICT],
  update: [
    ...baseErrors,
    FIELD_FORBIDDEN,
    RECORD_NOT_FOUND,
    RECORD_NOT_UNIQUE,
    WRITE_CONFLICT,
    errors.PRECONDITION_FAILED,
    errors.FORBIDDEN,
  ],
  delete: [
    ...baseErrors,
    RECORD_NOT_FOUND,
    RECORD_IN_USE,
    DEPENDANT_LIMIT_EXCEEDED,
    WRITE_CONFLICT,
    errors.PRECONDITION_FAILED,
    errors.FORBIDDEN,
  ],
};

/** `authenticated` and row authorization decide who may call. */
export const recordFacts = (schema: CompiledSchema, crud: CrudOperation) =>
  ({
    surface: 'client',
    access: needsUser(schema, crud) ? 'user' : 'optionalUser',
    limit: standardLimit,
    tag: schema.name,
    unknownInput: schema.modelOptions.conduit.unknownFields,
    errors: schema.mapping
      ? [...errorsOf[crud], ...Object.values(externalTableErrors)]
      : errorsOf[crud],
  }) as const;

const populate = Type.Optional(
  Type.Array(Type.String({ maxLength: 256 }), {
    maxItems: 10,
    description: 'Relations to include as records; dots for depth, at most 3',
  }),
);
const scope = Type.Optional(
  Type.String({
    maxLength: maxReferenceLength,
    description: 'Act on behalf of this resource, as <Type>:<id>',
  }),
);

const readFields = { populate, scope };
const listFields = {
  skip: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000_000_000, default: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, default: 25 })),
  cursor: cursorQuery,
  count: countQuery,
  sort: Type.Optional(
    Type.Array(Type.String({ maxLength: 64 }), {
      maxItems: 8,
      description: 'Fields; - in front: descending',
    }),
  ),
  ...readFields,
};

/** `scope` is declared only where rows are a matter of permission; elsewhere it never arrives. */
function withoutScope<F extends { readonly scope: typeof scope }>(
  schema: CompiledSchema,
  fields: F,
): TObject<F> {
  if (schema.modelOptions.conduit.authorization.enabled) return Type.Object(fields);
  const { scope: _, ...others } = fields;
  return Type.Object(others as TProperties) as unknown as TObject<F>;
}

export const scopeQuery = (schema: CompiledSchema) => withoutScope(schema, { scope });
export const readQuery = (schema: CompiledSchema) => withoutScope(schema, readFields);
export const listQuery = (schema: CompiledSchema) => withoutScope(schema, listFields);

/** Ids are UUIDs, except in tables of others (kernel/schema/mapping/key.ts). */
export const idParams = Type.Object({ id: Type.String({ maxLength: 1_024 }) });

/**
 * A record with its ETag. The version alone does not say whether an answer is the same (304): its schema, the
 * rights of who asks and the records that are populated have a part in the text too.
 */
export const recordReply = ({ json, version }: RecordText): Reply =>
  Reply.json(json, { etag: etagOf(version, renditionOf(json)) });

/** `{docs: [...]}` of records that are JSON text. */
export const docsReply = (records: readonly RecordText[]): Reply =>
  Reply.json(`{"docs":[${records.map(({ json }) => json).join(',')}]}`);

/** What of a list's query a list that is kept current takes. Throws 400 for a part of a list that is not its beginning. */
export function liveQuery(query: Readonly<Record<string, unknown>>): Omit<LiveOptions, 'filter'> {
  const { skip, cursor, sort, limit, populate, scope } = query as ListOptions;
  if (skip !== undefined && skip > 0)
    throw invalid('skip', 'live', 'cannot be kept current: listen to the beginning of the list');
  if (cursor !== undefined)
    throw invalid('cursor', 'live', 'cannot be kept current: listen to the beginning of the list');
  return {
    ...(sort && { sort }),
    ...(limit !== undefined && { limit }),
    ...(populate && { populate }),
    ...(scope !== undefined && { scope }),
  };
}
