/**
 * What `POST /authorization/indexer/reconstruct` means here. No index is kept, so
 * there is nothing to rebuild: every stored tuple is held against the definitions
 * (and, unless `soft`, against the records and users it names), and what counts
 * for nothing is reported. Nothing is changed, so no answer is ever wrong meanwhile.
 */
import Type from 'typebox';
import { allRows } from '../../../data/records/sql/row-id.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition, type Jobs } from '../../../kernel/jobs/jobs.ts';
import { fits, formatTuple } from '../model/tuple.ts';
import { tuplesAfter } from '../queries.ts';
import { resourceText, subjectText, uuidOf } from '../tuple-sql.ts';
import type { Models } from './definitions/models.ts';

/* Tuples about records and users that do not exist: of types that are schemas, because only there anybody can know. */

interface Orphan {
  readonly id: string;
  /** `subject#relation@resource`. */
  readonly tuple: string;
  /** Which side does not exist. */
  readonly missing: 'subject' | 'resource';
}

interface OrphanPage {
  readonly orphans: readonly Orphan[];
  /** Id of the last tuple that was looked at; absent when that was the last of all. */
  readonly last: string | undefined;
}

/** Tables of others may have other ids; nothing is written about their records. */
const hasUuids = ({ key }: CompiledSchema): boolean => key.length === 1 && key[0] === 'uuid';

/** Looks at `window` tuples after `after`, in the order of their ids, each by one index lookup per side. */
export async function findOrphans(
  database: Queryable,
  schemas: SchemaRegistry,
  { after, window }: { after: string; window: number },
): Promise<OrphanPage> {
  const gone = (side: 'subject' | 'resource'): string => {
    const cases = schemas
      .all()
      .filter(hasUuids)
      .map((schema) => {
        const { name } = schema;
        const record = `select 1 from ${allRows(schema)} r where r."_id" = ${uuidOf(`t.${side}_id`)}`;
        return `when ${literalOf(name, 'text')} then not exists (${record})`;
      });
    return cases.length === 0
      ? 'false'
      : `(t.${side}_id <> '*' and case t.${side}_type ${cases.join(' ')} else false end)`;
  };
  const text = `with page as materialized (select * from penstock.tuples where id > $1 order by id limit $2),
    judged as (select t.*, ${gone('resource')} as resource_gone, ${gone('subject')} as subject_gone from page t)
    select coalesce(json_agg(json_build_object(
        'id', t.id, 'tuple', ${subjectText('t')} || '#' || t.relation || '@' || ${resourceText('t')},
        'missing', case when t.resource_gone then 'resource' else 'subject' end) order by t.id)
        filter (where t.resource_gone or t.subject_gone), '[]') as orphans,
      count(*)::int as seen, (select id from page order by id desc limit 1) as last
    from judged t`;
  const { rows } = await database.query<{
    orphans: readonly Orphan[];
    seen: number;
    last: string | null;
  }>({
    text,
    values: [after, window],
  });
  const [row] = rows;
  return {
    orphans: row?.orphans ?? [],
    last: row && row.seen === window ? (row.last ?? undefined) : undefined,
  };
}

/** `waiting` and `running` end as `done`. */
export type VerificationState = 'waiting' | 'running' | 'done';

export interface Verification {
  readonly id: string;
  readonly soft: boolean;
  readonly state: VerificationState;
  readonly total: number;
  readonly checked: number;
  /** Tuples that fit no definition and count for nothing. */
  readonly invalid: number;
  /** Tuples whose subject or resource does not exist; looked for unless `soft`. */
  readonly orphaned: number;
  /** Some of both. */
  readonly examples: readonly {
    readonly id: string;
    readonly tuple: string;
    readonly problem: string;
  }[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly finishedAt: Date | null;
}

export interface Verifications {
  /** Starts a run, unless one like it waits already. */
  start(soft: boolean): Promise<void>;
  /** Newest first. */
  list(limit: number): Promise<readonly Verification[]>;
  readonly job: JobDefinition;
}

interface Dependencies {
  readonly database: Database;
  readonly jobs: Jobs;
  readonly schemas: SchemaRegistry;
  readonly models: Models;
}

const jobName = 'authorization.verify-tuples';
const jobData = Type.Object({ id: Type.String() });
const pageSize = 1000;
const maxExamples = 20;
const keptRuns = 20;
const beforeAll = '00000000-0000-0000-0000-000000000000';

export function createVerifications(dependencies: Dependencies): Verifications {
  const { database, jobs } = dependencies;
  return {
    start: (soft) =>
      database.transaction(async (transaction) => {
        await transaction.query({
          text: "select pg_advisory_xact_lock(hashtextextended('penstock.verifications', 0))",
        });
        const id = await insertRun(transaction, soft);
        if (id !== undefined) await jobs.enqueue(jobName, { id }, { transaction });
      }),
    list: (limit) => listRuns(database, limit),
    job: defineJob({
      name: jobName,
      data: jobData,
      expireInSeconds: 3600,
      async handler({ id }, { signal, log }) {
        // A run that was cut off goes on where it was.
        for (let more = true; more && !signal.aborted; ) more = await verifyPage(dependencies, id);
        log.info({ verification: id }, 'Stored relations were held against their definitions');
      },
    }),
  };
}

/**
 * The id of the new run; `undefined` when an equal one has not begun yet. One that has not begun for
 * six hours never will: its job has used up its attempts by then.
 */
async function insertRun(database: Queryable, soft: boolean): Promise<string | undefined> {
  const { rows } = await database.query<{ id: string }>(sql`
    insert into penstock.tuple_verifications (id, soft, total)
    select ${newId()}::uuid, ${soft}::boolean, (select count(*) from penstock.tuples)
    where not exists (select 1 from penstock.tuple_verifications where state = 'waiting' and soft = ${soft}::boolean and created_at > now() - interval '6 hours')
    returning id`);
  await database.query(sql`
    delete from penstock.tuple_verifications where (state = 'done' or updated_at < now() - interval '7 days') and id not in (
      select id from penstock.tuple_verifications order by id desc limit ${keptRuns})`);
  return rows[0]?.id;
}

async function listRuns(database: Queryable, limit: number): Promise<readonly Verification[]> {
  const { rows } = await database.query<Verification>(sql`
    select id, soft, state, total::float8 as total, checked::float8 as checked, invalid::float8 as invalid, orphaned::float8 as orphaned,
      examples, created_at as "createdAt", updated_at as "updatedAt", finished_at as "finishedAt"
    from penstock.tuple_verifications order by id desc limit ${limit}`);
  return rows;
}

/** Holds one page against the definitions in force; answers whether there is more. */
async function verifyPage(
  { database, schemas, models }: Dependencies,
  id: string,
): Promise<boolean> {
  return database.transaction(async (transaction) => {
    const { rows } = await transaction.query<{ soft: boolean; last: string | null }>(
      sql`select soft, last_id as last from penstock.tuple_verifications where id = ${id} and state <> 'done' for update`,
    );
    const [run] = rows;
    if (!run) return false;
    const after = run.last ?? beforeAll;
    const { model } = await models.engine();
    const page = await tuplesAfter(transaction, after, pageSize);
    const invalidTuples = page.filter((tuple) => !fits(model, tuple));
    const { orphans } = run.soft
      ? { orphans: [] }
      : await findOrphans(transaction, schemas, { after, window: pageSize });
    const examples = [
      ...invalidTuples.map((tuple) => ({
        id: tuple.id,
        tuple: formatTuple(tuple),
        problem: 'no definition allows it',
      })),
      ...orphans.map(orphanExample),
    ].slice(0, maxExamples);
    const more = page.length === pageSize;
    await transaction.query(sql`
      update penstock.tuple_verifications set
        state = ${more ? 'running' : 'done'}, checked = checked + ${page.length}, invalid = invalid + ${invalidTuples.length},
        orphaned = orphaned + ${orphans.length}, last_id = ${page.at(-1)?.id ?? after},
        examples = case when jsonb_array_length(examples) < ${maxExamples} then examples || ${JSON.stringify(examples)}::jsonb else examples end,
        finished_at = case when ${!more}::boolean then now() end, updated_at = now()
      where id = ${id}`);
    return more;
  });
}

const orphanExample = ({ id, tuple, missing }: Orphan) => ({
  id,
  tuple,
  problem: `its ${missing} does not exist`,
});
