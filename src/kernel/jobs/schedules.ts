/**
 * Which work recurs, as the database has it: the nodes send what stands there, also work that nobody does any more. So
 * each row says which version of the platform declared it. Whoever starts removes what it does not declare itself, but
 * nothing of a newer version: during an update nodes of both run, and the newer one decides.
 */
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { JobDefinition } from './jobs.ts';

interface StoredSchedule {
  readonly name: string;
  readonly cron: string;
  /** Absent in rows of versions that did not say it. */
  readonly declaredBy: string | null;
}

interface DeclareOptions {
  /** Of this platform. */
  readonly version: string;
  /** These are all that there are: others go. */
  readonly all: boolean;
}

/** Stores what recurs among these jobs, in one statement and only where it stands otherwise; their queues are there. */
export async function declareSchedules(
  database: Database,
  definitions: readonly JobDefinition[],
  { version, all }: DeclareOptions,
): Promise<void> {
  const declared = definitions.flatMap(({ name, schedule }) =>
    schedule === undefined ? [] : [{ name, cron: schedule }],
  );
  if (declared.length === 0 && !all) return;
  const { rows } = await database.query<StoredSchedule>(sql`
    select name, cron, options ->> 'declaredBy' as "declaredBy" from penstock_jobs.schedule`);
  const stored = new Map(rows.map((row) => [row.name, row]));
  const changed = declared.filter((one) => differs(one, stored.get(one.name), version));
  const names = new Set(declared.map(({ name }) => name));
  const gone = all
    ? rows.filter((row) => !names.has(row.name) && compareVersions(row.declaredBy, version) <= 0)
    : [];
  if (changed.length === 0 && gone.length === 0) return;
  await database.query(sql`
    with gone as (delete from penstock_jobs.schedule where name = any(${gone.map(({ name }) => name)}::text[]))
    insert into penstock_jobs.schedule (name, key, cron, timezone, data, options)
    select name, '', cron, 'UTC', '{}', json_build_object('tz', 'UTC', 'declaredBy', ${version}::text)
    from unnest(${changed.map(({ name }) => name)}::text[], ${changed.map(({ cron }) => cron)}::text[]) as declared (name, cron)
    on conflict (name, key) do update set cron = excluded.cron, timezone = excluded.timezone, data = excluded.data,
      options = excluded.options, updated_on = now()`);
}

function differs(
  { cron }: Pick<StoredSchedule, 'cron'>,
  stored: StoredSchedule | undefined,
  version: string,
): boolean {
  if (!stored) return true;
  const order = compareVersions(stored.declaredBy, version);
  return order < 0 || (order === 0 && stored.cron !== cron);
}

/** Below zero where `a` is older than `b`. Versions that only differ in what is said after their numbers are the same. */
function compareVersions(a: string | null, b: string): number {
  const [left, right] = [numbersOf(a ?? ''), numbersOf(b)];
  const at = right.findIndex((part, i) => part !== (left[i] ?? 0));
  return at < 0 ? 0 : (left[at] ?? 0) - (right[at] ?? 0);
}

const numbersOf = (version: string): readonly number[] =>
  (version.split(/[-+]/, 1)[0] ?? '').split('.').map((part) => Number.parseInt(part, 10) || 0);
