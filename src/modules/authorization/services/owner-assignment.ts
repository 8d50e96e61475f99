/**
 * Gives records that were there before row authorization their owners. A
 * durable job in pages: it can stop anywhere and goes on, and a record that has
 * an owner already keeps only that one.
 */
import Type from 'typebox';
import { namesUser } from '../../../data/records/access/operation-access.ts';
import { allRows } from '../../../data/records/sql/row-id.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { Events } from '../../../kernel/events/events.ts';
import { defineJob, type JobDefinition, type Jobs } from '../../../kernel/jobs/jobs.ts';
import type { Adoption } from '../../../kernel/permissions.ts';
import { ownerRelation } from '../model/grammar.ts';
import { ownText } from '../owner-columns.ts';
import { trackedOid, tupleEvents, uuidOf } from '../tuple-sql.ts';
import type { Models } from './definitions/models.ts';

export interface OwnerAssignments {
  /** Throws 400 for a field that does not name a user. */
  start(schema: string, adoption: Adoption): Promise<void>;
  readonly job: JobDefinition;
}

interface Dependencies {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly models: Pick<Models, 'engine'>;
}

const jobName = 'authorization.adopt-records';
const pageSize = 1000;
const jobData = Type.Object({ schema: Type.String(), ownerField: Type.String() });

export function createOwnerAssignments({
  database,
  schemas,
  events,
  jobs,
  models,
}: Dependencies): OwnerAssignments {
  return {
    async start(schema, { mode, ownerField }) {
      if (mode === 'leaveUnowned') return;
      const compiled = schemas.get(schema);
      if (!compiled || ownerField === undefined || !namesUser(compiled, ownerField)) {
        throw invalid(
          'ownerField',
          'field',
          'must be a field of the schema that holds the id of a user (Relation to User, ObjectId or String)',
        );
      }
      await jobs.enqueue(jobName, { schema, ownerField }, { singletonKey: schema });
    },
    job: defineJob({
      name: jobName,
      data: jobData,
      async handler({ schema, ownerField }, { signal, log }) {
        const compiled = schemas.get(schema);
        if (!compiled || !namesUser(compiled, ownerField)) return;
        let last: string | undefined = '00000000-0000-0000-0000-000000000000';
        let owned = 0;
        while (last !== undefined && !signal.aborted) {
          const { model } = await models.engine();
          const inRecords = model.columnOf(schema, ownerRelation) !== undefined;
          const page = await assignPage(database, {
            schema: compiled,
            ownerField,
            after: last,
            inRecords,
          });
          owned += page.owned;
          last = page.last;
          events.wake();
        }
        log.info({ schema, owned }, 'Records got their owners');
      },
    }),
  };
}

interface PageOfRecords {
  readonly schema: CompiledSchema;
  readonly ownerField: string;
  readonly after: string;
  /** The records have columns for their owner. */
  readonly inRecords: boolean;
}

/** Owners for the records after `after`; `last` is absent at the end. */
async function assignPage(
  database: Queryable,
  { schema, ownerField, after, inRecords }: PageOfRecords,
): Promise<{ readonly owned: number; readonly last: string | undefined }> {
  const { name: type, table } = schema;
  const parts = inRecords
    ? ownText({ type, table, rows: 'requested', actor: '$2' })
    : storedOwners(schema);
  const text = `with page as (select "_id", ${identifier(ownerField)}::text as owner from ${allRows(schema)} t where "_id" > $1 order by "_id" limit ${pageSize}${schema.mapping ? '' : ' for key share'}),
    requested as (select p."_id", u."_id" as "user" from page p join "app"."User" u on u."_id" = ${uuidOf('p.owner')}),
    ${parts.join(', ')}
    select (select count(*)::int from owned) as owned, (select count(*)::int from page) as seen, (select "_id" from page order by "_id" desc limit 1) as last`;
  const { rows } = await database.query<{ owned: number; seen: number; last: string | null }>({
    text,
    values: [after, `system:${jobName}`],
  });
  const [row] = rows;
  return {
    owned: row?.owned ?? 0,
    last: row && row.seen === pageSize && row.last !== null ? row.last : undefined,
  };
}

function storedOwners({ name, table }: CompiledSchema): readonly string[] {
  const type = literalOf(name, 'text');
  return [
    `owned as (
      insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id, row_of)
      select gen_random_uuid(), 'User', w."user"::text, '${ownerRelation}', ${type}, w."_id"::text, ${trackedOid(name, table)}
        from requested w
       where not exists (select 1 from penstock.tuples t
         where t.resource_type = ${type} and t.resource_id = w."_id"::text and t.relation = '${ownerRelation}')
      on conflict do nothing returning *)`,
    `events as (${tupleEvents('create', 'owned', '$2')})`,
  ];
}
