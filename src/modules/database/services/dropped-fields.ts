/** Fields that are taken out of schemas: what is kept of them, for how long, and how they come back. */

import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { FieldMap } from '../../../data/schema/language/definition.ts';
import { automaticFields } from '../../../data/schema/language/names.ts';
import { droppedAround, withoutDefinitionAt } from '../../../data/schema/plan/dropped.ts';
import type { SchemaRequest } from '../../../data/schema/plan/schema-request.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../kernel/authority.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import type { ConfigHandle } from '../../../kernel/config/config-definition.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import type { DatabaseConfig } from '../config.ts';
import type { SchemaAdmin } from './schema-admin.ts';
import type { PlanForAdmin } from './schema-views.ts';

export interface DroppedFieldView {
  readonly field: string;
  readonly type: string;
  readonly definition?: unknown;
  readonly extension?: string;
  readonly droppedAt: string;
  readonly purgeAfter?: string;
}

export interface DroppedFieldAdmin {
  /** Those that can be restored or purged by themselves, by path. */
  list(id: string): readonly DroppedFieldView[];
  /** Takes a field out. Throws 404. */
  taking(id: string, field: string): SchemaRequest;
  purging(id: string, field: string): SchemaRequest;
  restoring(id: string, field: string, backfill: unknown): SchemaRequest;
  plan(caller: Caller, request: SchemaRequest): Promise<PlanForAdmin>;
  apply(caller: Caller, request: SchemaRequest): Promise<CompiledSchema>;
}

const DAY_MS = 86_400_000;

export function createDroppedFieldAdmin(
  admin: SchemaAdmin,
  config: ConfigHandle<DatabaseConfig>,
): DroppedFieldAdmin {
  const purgeAfter = (at: string): Pick<DroppedFieldView, 'purgeAfter'> => {
    const { retentionDays } = config.current().droppedFields;
    return retentionDays === 0
      ? {}
      : { purgeAfter: new Date(Date.parse(at) + retentionDays * DAY_MS).toISOString() };
  };

  return {
    list: (id) =>
      rootsOf(admin.get(id)).map(([field, { type, definition, extension, at }]) => ({
        field,
        type,
        ...(definition !== undefined && { definition }),
        ...(extension !== undefined && { extension }),
        droppedAt: at,
        ...purgeAfter(at),
      })),
    taking: (id, field) => takingOut(admin.get(id), field),
    purging: (id, field) => ({ kind: 'purge', fields: [{ id: admin.get(id)._id, field }] }),
    restoring: (id, field, backfill) => ({
      kind: 'restore',
      id: admin.get(id)._id,
      field,
      ...(backfill !== undefined && { backfill }),
    }),
    plan: admin.plan,
    async apply(caller, request) {
      const [schema] = await admin.apply(caller, request);
      if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
      return schema;
    },
  };
}

/** What was taken out inside of something else that was taken out comes back with that. */
const rootsOf = ({ dropped }: CompiledSchema) =>
  Object.entries(dropped)
    .filter(([path]) => droppedAround(dropped, path) === undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));

/** The change that leaves a field out of the map that it stands in: the schema's own, or an extension of the admins. */
function takingOut(schema: CompiledSchema, field: string): SchemaRequest {
  const own: FieldMap = Object.fromEntries(
    Object.entries(schema.fields).filter(([name]) => !automaticFields.has(name)),
  );
  const fields = withoutDefinitionAt(own, field);
  if (fields) return { kind: 'update', changes: [{ id: schema._id, change: { fields } }] };
  const extension = schema.extensions.find(({ ownerModule }) => ownerModule === adminOwner);
  const left = extension && withoutDefinitionAt(extension.fields, field);
  if (left) return { kind: 'extend', id: schema._id, owner: adminOwner, fields: left };
  throw schemaErrors.FIELD_NOT_FOUND();
}

/** Purges what was taken out longer ago than the configuration says. Off unless it says something. */
export const createPurgeFieldsJob = (
  schemas: SchemaRegistry,
  config: ConfigHandle<DatabaseConfig>,
): JobDefinition =>
  defineJob({
    name: 'database.purge-dropped-fields',
    data: Type.Object({}),
    schedule: '17 3 * * *',
    handler: () => purgeOld(schemas, config.current().droppedFields.retentionDays, Date.now()),
  });

/** `now` in milliseconds since 1970. Nothing happens with 0 days. */
export async function purgeOld(
  schemas: SchemaRegistry,
  retentionDays: number,
  now: number,
): Promise<void> {
  if (retentionDays === 0) return;
  const before = now - retentionDays * DAY_MS;
  const fields = schemas.all().flatMap((schema) =>
    rootsOf(schema)
      .filter(([, { at }]) => Date.parse(at) < before)
      .map(([field]) => ({ id: schema._id, field })),
  );
  if (fields.length > 0)
    await schemas.apply(system('retention of dropped fields'), { kind: 'purge', fields });
}
